"""When runs of jobs that are not parallel waited for their turn, and for whom.

A lane is what `domain.runs.blocking` says: a run may start when fewer runs than its job allows are
live or wait before it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import itemgetter

from tickwheel_admin.domain.delays.history import (
    DelayHistory,
    HistoryRun,
    Stretch,
    wait_of,
)

_END, _BEGIN = 0, 1


def lane_of(run: HistoryRun, history: DelayHistory) -> Hashable | None:
    """What it stands in line for; None: its job is parallel."""
    need = history.needs[run.need]
    if need.is_parallel:
        return None
    if run.fire_id is None:
        return run.job_id
    if need.is_broadcast and run.pinned_node_id is not None:
        return run.job_id, "node", run.pinned_node_id
    return run.job_id, "shard", run.shard_index


def lanes_of(history: DelayHistory) -> dict[Hashable, list[HistoryRun]]:
    """The runs of each lane."""
    lanes: defaultdict[Hashable, list[HistoryRun]] = defaultdict(list)
    for run in history.runs:
        lane = lane_of(run, history)
        if lane is not None:
            lanes[lane].append(run)
    return lanes


def turns_of(
    lanes: Mapping[Hashable, Sequence[HistoryRun]], history: DelayHistory
) -> dict[int, list[Stretch]]:
    """Of each run of a lane that waited: the stretches in which it was its turn."""
    turns: dict[int, list[Stretch]] = {}
    for runs in lanes.values():
        _Lane(runs, history, turns)
    return turns


class _Lane:
    """One lane, swept over the time that counts."""

    def __init__(
        self, runs: Sequence[HistoryRun], history: DelayHistory, turns: dict[int, list[Stretch]]
    ) -> None:
        self._turns = turns
        newest = max(runs, key=lambda run: (run.scheduled_at, run.id))
        self._free = history.needs[newest.need].concurrency
        self._line: list[tuple[int, int]] = []  # heap of those that wait for their turn
        self._waiting: set[int] = set()
        # Those whose turn it is: since when, and their place.
        self._at_turn: dict[int, tuple[int, tuple[int, int]]] = {}
        events: list[tuple[int, int, int, tuple[int, int] | None]] = []
        for run in runs:
            place = (run.scheduled_at, run.id)
            wait = wait_of(run, history) if _waits(run) else None
            if wait is not None and wait.queued.ms:
                turns[run.id] = []
                events.append((wait.queued.from_at, _BEGIN, run.id, place))
                events.append((wait.queued.until_at, _END, run.id, place))
            for hold in run.holds:
                events.append((hold.from_at, _BEGIN, run.id, None))
                if hold.until_at is not None:
                    events.append((hold.until_at, _END, run.id, None))
        events.sort(key=lambda event: event[:2])
        for index, (at, change, run_id, waits_at) in enumerate(events):
            if waits_at is None:
                self._free += 1 if change == _END else -1
            elif change == _BEGIN:
                self._waiting.add(run_id)
                heapq.heappush(self._line, waits_at)
            else:
                self._leaves(run_id, at)
            if index + 1 == len(events) or events[index + 1][0] != at:
                self._settle(at)

    def _leaves(self, run_id: int, at: int) -> None:
        self._waiting.discard(run_id)
        found = self._at_turn.pop(run_id, None)
        if found is not None:
            self._was_at_turn(run_id, found[0], at)

    def _settle(self, at: int) -> None:
        """Whose turn it is from this instant on."""
        room = max(self._free, 0)
        while self._line:
            place = self._line[0]
            if place[1] not in self._waiting:
                heapq.heappop(self._line)
            elif len(self._at_turn) < room:
                heapq.heappop(self._line)
                self._at_turn[place[1]] = at, place
            elif self._at_turn and place < (last := self._last())[1]:  # an older one came late
                self._sent_back(last, at)
            else:
                break
        while len(self._at_turn) > room:  # somebody went before them, as a retry may
            self._sent_back(self._last(), at)

    def _last(self) -> tuple[int, tuple[int, int]]:
        """Of those whose turn it is, who would be the first to wait again."""
        return max(self._at_turn.values(), key=itemgetter(1))

    def _sent_back(self, last: tuple[int, tuple[int, int]], at: int) -> None:
        since, place = last
        del self._at_turn[place[1]]
        self._was_at_turn(place[1], since, at)
        heapq.heappush(self._line, place)

    def _was_at_turn(self, run_id: int, since: int, until: int) -> None:
        if until > since:
            self._turns[run_id].append(Stretch(since, until))


def _waits(run: HistoryRun) -> bool:
    return run.is_measured or run.has_no_node


def outside(whole: Stretch, parts: Iterable[Stretch]) -> list[Stretch]:
    """What of some time is in none of its parts, which follow one another."""
    rest, at = [], whole.from_at
    for part in parts:
        if part.from_at > at:
            rest.append(Stretch(at, part.from_at))
        at = max(at, part.until_at)
    if whole.until_at > at:
        rest.append(Stretch(at, whole.until_at))
    return rest


def blockers_of(
    run: HistoryRun, blocked: Sequence[Stretch], lane: Sequence[HistoryRun], history: DelayHistory
) -> dict[int, float]:
    """How long each run of the lane kept another from its turn, ms by run id.

    Each moment is split equally among the live runs; when none is live, it is charged to the first
    of those that wait before it.
    """
    first, last = blocked[0].from_at, blocked[-1].until_at
    holds = [
        (
            max(hold.from_at, first),
            last if hold.until_at is None else min(hold.until_at, last),
            each,
        )
        for each in lane
        if each.id != run.id
        for hold in each.holds
    ]
    before = sorted(
        ((each.scheduled_at, each.id, wait.queued) for each in lane
         if each.id != run.id and (each.scheduled_at, each.id) < (run.scheduled_at, run.id)
         and _waits(each) and (wait := wait_of(each, history)) is not None)
    , key=lambda each: each[:2])  # fmt: skip
    charged: defaultdict[int, float] = defaultdict(float)
    events = sorted(
        [(begin, _BEGIN, each.id) for begin, end, each in holds if end > begin]
        + [(end, _END, each.id) for begin, end, each in holds if end > begin]
        + [(at, 2, 0) for part in blocked for at in (part.from_at, part.until_at)]
    )
    inside = {part.from_at: True for part in blocked}
    ends = {part.until_at for part in blocked}
    live: dict[int, int] = {}
    is_blocked, last_at = False, first
    for at, change, run_id in events:
        if is_blocked and at > last_at:
            _charge(charged, live, before, Stretch(last_at, at))
        last_at = at
        if change == _BEGIN:
            live[run_id] = live.get(run_id, 0) + 1
        elif change == _END:
            live[run_id] -= 1
            if not live[run_id]:
                del live[run_id]
        else:
            is_blocked = at in inside or (is_blocked and at not in ends)
    return charged


def _charge(
    charged: defaultdict[int, float],
    live: Mapping[int, int],
    before: Sequence[tuple[int, int, Stretch]],
    when: Stretch,
) -> None:
    if live:
        for run_id in live:
            charged[run_id] += when.ms / len(live)
        return
    at = when.from_at
    for _, run_id, queued in before:
        if at >= when.until_at:
            return
        if queued.from_at <= at < queued.until_at:
            until = min(queued.until_at, when.until_at)
            charged[run_id] += until - at
            at = until
