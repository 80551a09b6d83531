"""Who was delayed and who caused it, job by job: what the process of its own computes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from tickwheel_admin.domain.delays.charging import KINDS, charge_delays
from tickwheel_admin.domain.delays.history import DelayHistory, DelayKind
from tickwheel_admin.domain.delays.rounding import whole_parts

SHOWN = 20  # delayed jobs, and jobs that caused it; the rest is summed
_BLOCKED = KINDS.index(DelayKind.BLOCKED)


class DelayedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A row: the delay of a job's runs."""

    job_id: int | None  # None: all jobs that have no row of their own
    jobs: int  # how many it stands for
    runs: int  # that waited
    kinds: dict[DelayKind, int]  # ms
    caused_by: tuple[int, ...]  # ms by place in `DelayMatrix.causes`
    by_others: int  # ms that jobs without a column caused

    @property
    def ms(self) -> int:
        """All of it."""
        return sum(self.kinds.values())

    @property
    def uncharged(self) -> int:
        """ms that no run is charged."""
        return self.ms - sum(self.caused_by) - self.by_others


class CausingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A column: what the runs of a job caused."""

    job_id: int
    ms: int
    to_itself: int  # of it, what its own runs waited


class DelayMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """Who was delayed, most first, and by whom, most first. Rows and columns add up."""

    rows: tuple[DelayedJob, ...]
    causes: tuple[CausingJob, ...]
    others_ms: int  # that jobs without a column caused
    other_causes: int  # how many they are
    runs: int  # that waited
    kinds: dict[DelayKind, int]


def delay_matrix(history: DelayHistory, *, shown: int = SHOWN) -> DelayMatrix:
    """Charge all delays of the history's time."""
    job_of = {run.id: run.job_id for run in history.runs}
    first = charge_delays(history)
    totals: Counter[int] = Counter()
    for run_id, parts in first.parts.items():
        totals[job_of[run_id]] += sum(parts)
    ranked = [job_id for job_id, ms in sorted(totals.items(), key=_most_first) if ms]
    own = {job_id: row for row, job_id in enumerate(ranked[:shown])}
    rest = len(own)
    count = rest + (1 if len(ranked) > rest else 0)
    rows = {
        run_id: own.get(job_of[run_id], rest) for run_id, parts in first.parts.items() if sum(parts)
    }
    found = charge_delays(history, rows, count=count, by_job=True)
    kinds = [[0] * len(KINDS) for _ in range(count)]
    waited = [0] * count
    cells: defaultdict[tuple[int, int], float] = defaultdict(float)
    for run_id, row in rows.items():
        waited[row] += 1
        for index, ms in enumerate(found.parts[run_id]):
            kinds[row][index] += ms
        if found.parts[run_id][_BLOCKED]:  # a lane is of one job
            cells[row, job_of[run_id]] += found.parts[run_id][_BLOCKED]
    for charges in (found.of_nodes, found.of_pools):
        for cell, charged in charges.items():
            cells[cell] += charged
    whole = _whole_cells(cells, count)
    caused: Counter[int] = Counter()
    for (_, job_id), each in whole.items():
        caused[job_id] += each
    causes = [job_id for job_id, ms in sorted(caused.items(), key=_most_first) if ms]
    columns = causes[:shown]
    return DelayMatrix(
        rows=tuple(
            _row(
                ranked[row] if row < rest else None,
                jobs=1 if row < rest else len(ranked) - rest,
                runs=waited[row],
                kinds=kinds[row],
                cells={job_id: ms for (at, job_id), ms in whole.items() if at == row},
                columns=columns,
            )
            for row in range(count)
        ),
        causes=tuple(
            CausingJob(
                job_id=job_id,
                ms=caused[job_id],
                to_itself=whole.get((own[job_id], job_id), 0) if job_id in own else 0,
            )
            for job_id in columns
        ),
        others_ms=sum(caused[job_id] for job_id in causes[shown:]),
        other_causes=max(len(causes) - shown, 0),
        runs=len(rows),
        kinds=_by_kind([sum(each) for each in zip(*kinds, strict=True)] or [0] * len(KINDS)),
    )


def _whole_cells(cells: Mapping[tuple[int, int], float], count: int) -> dict[tuple[int, int], int]:
    """Whole ms, whose sums by row are those of the parts."""
    by_row: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for (row, job_id), ms in cells.items():
        by_row[row][job_id] = ms
    return {
        (row, job_id): ms
        for row in range(count)
        for job_id, ms in whole_parts(by_row[row]).items()
        if ms
    }


def _row(
    job_id: int | None,
    *,
    jobs: int,
    runs: int,
    kinds: Iterable[int],
    cells: Mapping[int, int],
    columns: Iterable[int],
) -> DelayedJob:
    shown = tuple(cells.get(each, 0) for each in columns)
    return DelayedJob(
        job_id=job_id,
        jobs=jobs,
        runs=runs,
        kinds=_by_kind(kinds),
        caused_by=shown,
        by_others=sum(cells.values()) - sum(shown),
    )


def _by_kind(ms: Iterable[int]) -> dict[DelayKind, int]:
    return {kind: each for kind, each in zip(KINDS, ms, strict=True) if each}


def _most_first(item: tuple[int, int]) -> tuple[int, int]:
    return -item[1], item[0]


def answer(text: bytes) -> bytes:
    """From a history in JSON to its matrix in JSON."""
    return msgspec.json.encode(delay_matrix(msgspec.json.decode(text, type=DelayHistory)))
