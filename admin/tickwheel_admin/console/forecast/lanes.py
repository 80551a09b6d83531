"""A plan as lanes: where each bar of a server-made SVG lies, in per cent of the time shown."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.forecast.plan import (
    DeadlineVerdict,
    EndedRun,
    ExecutorPlan,
    NightPlan,
    PlanBar,
)

HOUR_MS = 3_600_000
MOST_LANES = 60
MOST_ROWS = 6  # of bars that overlap in one lane; what is beyond shares the last
ROW_HEIGHT, BAR_HEIGHT = 15, 11
LANE_BORDER = 1
LEAST_WIDTH = 0.4  # per cent: a short run must be seen
IN_DANGER = (DeadlineVerdict.MISSED, DeadlineVerdict.AT_RISK)
_TICKS = ((9, 1), (18, 2), (27, 3), (48, 6))  # up to so many hours, one each so many
_SYMBOLS = {  # beside the colour
    RunState.FAILED: "×",
    RunState.TIMED_OUT: "×",
    RunState.LOST: "?",
    RunState.CANCELLED: "–",
    RunState.SKIPPED: "–",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMark:
    """A bar, and what it stands for."""

    kind: str  # class: a state, "running" or "predicted"
    job_id: int
    start_at: int
    end_at: int | None  # None: not before the end of what was simulated
    x: float
    width: float
    slow_width: float  # behind the bar, up to its slow end; 0: there is none
    y: int
    run_id: int | None
    parent_run_id: int | None  # of a run that is over
    after_job_id: int | None
    asked_at: int  # when it was or will be asked for
    symbol: str
    is_critical: bool  # a deadline in danger waits for it


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineMark:
    """A deadline in the lane of its job."""

    at: int
    x: float
    is_in_danger: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLane:
    """One job, or one node."""

    key: int  # id of the job or node; 0: nobody knows the node
    height: int
    marks: tuple[PlanMark, ...]
    deadlines: tuple[DeadlineMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLink:
    """A line from the end of a run to the start of one that follows it in another lane.

    `y` counts from the top of the first lane.
    """

    from_x: float
    from_y: int
    x: float
    y: int
    is_critical: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedMark:
    """A bar among all lanes."""

    lane: int  # the how many-th
    y: int  # of its middle, from the top of the first lane
    mark: PlanMark


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLanes:
    """All lanes, and the axis above them."""

    lanes: tuple[PlanLane, ...]
    links: tuple[PlanLink, ...]
    height: int  # of all lanes
    more: int  # lanes that are not drawn
    ticks: tuple[tuple[float, int], ...]  # position, instant
    now_x: float
    bar_height: int


def drawn_lanes(found: ExecutorPlan, *, by_node: bool) -> DrawnLanes:
    """The plan as lanes, those with deadlines in danger first, then by their first start."""
    begin, end = found.from_at, max(found.plan.end, found.from_at + 1)
    critical = _critical(found.plan)
    marks: defaultdict[int, list[PlanMark]] = defaultdict(list)
    for run in found.past:
        marks[_key(run, by_node)].append(_past_mark(run, begin, end))
    for bar in found.plan.bars:
        marks[_key(bar, by_node)].append(_mark(bar, begin, end, is_critical=bar in critical))
    deadlines: defaultdict[int, list[DeadlineMark]] = defaultdict(list)
    if not by_node:
        for each in found.plan.deadlines:
            if each.at <= end:
                in_danger = each.verdict in IN_DANGER
                mark_at = DeadlineMark(
                    at=each.at, x=_x(each.at, begin, end), is_in_danger=in_danger
                )
                deadlines[each.job_id].append(mark_at)
    lanes = [
        _lane(key, marks[key], deadlines[key]) for key in sorted(marks.keys() | deadlines.keys())
    ]
    lanes.sort(key=lambda lane: (not any(each.is_in_danger for each in lane.deadlines),
                                 not any(mark.is_critical for mark in lane.marks),
                                 _first(lane, found.now), lane.key))  # fmt: skip
    shown = lanes[:MOST_LANES]
    return DrawnLanes(
        lanes=tuple(shown),
        links=_links(shown),
        height=sum(lane.height + LANE_BORDER for lane in shown),
        more=max(0, len(lanes) - MOST_LANES),
        ticks=_ticks(begin, end),
        now_x=_x(found.now, begin, end),
        bar_height=BAR_HEIGHT,
    )


def _key(run: EndedRun | PlanBar, by_node: bool) -> int:
    return (run.node_id or 0) if by_node else run.job_id


def _critical(plan: NightPlan) -> set[PlanBar]:
    """The runs that deadlines in danger wait for: of each step the run that starts next to it."""
    bars: defaultdict[int, list[PlanBar]] = defaultdict(list)
    for bar in plan.bars:
        bars[bar.job_id].append(bar)
    found = set()
    for each in plan.deadlines:
        if each.verdict not in IN_DANGER:
            continue
        for step in each.path:
            at = step.due_at if step.start_at is None else step.start_at
            nearest = min(bars[step.job_id], key=lambda bar: abs(bar.start_at - at), default=None)
            if nearest is not None:
                found.add(nearest)
    return found


def _first(lane: PlanLane, now: int) -> int:
    """What comes or goes on stands before what is over."""
    coming = [mark.start_at for mark in lane.marks if mark.end_at is None or mark.end_at > now]
    return min(coming, default=2**62)


def _past_mark(run: EndedRun, begin: int, end: int) -> PlanMark:
    start = run.ended_at if run.started_at is None else run.started_at
    x = _x(start, begin, end)
    return PlanMark(
        kind=run.state.value,
        job_id=run.job_id,
        start_at=start,
        end_at=run.ended_at,
        x=x,
        width=max(LEAST_WIDTH, round(_x(run.ended_at, begin, end) - x, 2)),
        slow_width=0,
        y=0,
        run_id=run.id,
        parent_run_id=run.parent_run_id,
        after_job_id=None,
        asked_at=run.scheduled_at,
        symbol=_SYMBOLS.get(run.state, ""),
        is_critical=False,
    )


def _mark(bar: PlanBar, begin: int, end: int, *, is_critical: bool) -> PlanMark:
    x = _x(bar.start_at, begin, end)
    to = _x(end if bar.end_at is None else bar.end_at, begin, end)
    slow = _x(end if bar.slow_end_at is None else bar.slow_end_at, begin, end)
    width = max(LEAST_WIDTH, round(to - x, 2))
    return PlanMark(
        kind="running" if bar.is_running else "predicted",
        job_id=bar.job_id,
        start_at=bar.start_at,
        end_at=bar.end_at,
        x=x,
        width=width,
        slow_width=max(0, round(slow - x - width, 2)),
        y=0,
        run_id=bar.run_id,
        parent_run_id=None,
        after_job_id=bar.after_job_id,
        asked_at=bar.due_at,
        symbol="",
        is_critical=is_critical,
    )


def _lane(key: int, marks: Sequence[PlanMark], deadlines: Sequence[DeadlineMark]) -> PlanLane:
    """Bars that overlap stand below each other."""
    rows: list[float] = []
    placed = []
    for mark in sorted(marks, key=lambda each: (each.x, each.start_at)):
        row = next((place for place, to in enumerate(rows) if to <= mark.x), len(rows))
        row = min(row, MOST_ROWS - 1)
        if row == len(rows):
            rows.append(0)
        rows[row] = max(rows[row], mark.x + mark.width)
        placed.append(_at_row(mark, row))
    return PlanLane(
        key=key,
        height=max(1, len(rows)) * ROW_HEIGHT + 14,
        marks=tuple(placed),
        deadlines=tuple(deadlines),
    )


def _at_row(mark: PlanMark, row: int) -> PlanMark:
    return replace(mark, y=9 + row * ROW_HEIGHT)


def _links(lanes: Sequence[PlanLane]) -> tuple[PlanLink, ...]:
    """From each run to the ones that follow it; a predicted one follows the run of that job that
    ends next to when it is asked for.
    """
    placed: list[_PlacedMark] = []
    top = 0
    for place, lane in enumerate(lanes):
        top += LANE_BORDER
        placed += [
            _PlacedMark(lane=place, y=top + mark.y + BAR_HEIGHT // 2, mark=mark)
            for mark in lane.marks
        ]
        top += lane.height
    of_run = {each.mark.run_id: each for each in placed if each.mark.run_id is not None}
    of_job: defaultdict[int, list[_PlacedMark]] = defaultdict(list)
    for each in placed:
        if each.mark.end_at is not None:
            of_job[each.mark.job_id].append(each)
    for ended in of_job.values():
        ended.sort(key=_ended_at)
    found = []
    for each in placed:
        mark = each.mark
        if mark.after_job_id is not None:
            parent = _next_to(of_job[mark.after_job_id], mark.asked_at)
        else:
            parent = None if mark.parent_run_id is None else of_run.get(mark.parent_run_id)
        if parent is not None and parent.lane != each.lane:
            before = parent.mark
            found.append(
                PlanLink(
                    from_x=round(before.x + before.width, 2),
                    from_y=parent.y,
                    x=mark.x,
                    y=each.y,
                    is_critical=before.is_critical and mark.is_critical,
                )
            )
    return tuple(found)


def _ended_at(placed: _PlacedMark) -> int:
    return placed.mark.end_at or 0


def _next_to(ended: Sequence[_PlacedMark], at: int) -> _PlacedMark | None:
    """The one that ends next to an instant, of several in the order of their ends."""
    place = bisect_left(ended, at, key=_ended_at)
    return min(
        ended[max(0, place - 1) : place + 1],
        key=lambda each: abs(_ended_at(each) - at),
        default=None,
    )


def _ticks(begin: int, end: int) -> tuple[tuple[float, int], ...]:
    hours = (end - begin) / HOUR_MS
    step = next((each for most, each in _TICKS if hours <= most), 6) * HOUR_MS
    first = (begin // step + 1) * step
    return tuple((_x(at, begin, end), at) for at in range(first, end, step))


def _x(at: int, begin: int, end: int) -> float:
    """Per cent of the time shown."""
    return round(100 * (min(max(at, begin), end) - begin) / (end - begin), 2)


def names_of(found: ExecutorPlan, *, by_node: bool) -> Mapping[int, str]:
    """Of the lanes."""
    return found.node_names if by_node else found.job_names
