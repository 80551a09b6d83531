"""The matrix adds up, by rows and by columns, whatever is summed."""

from __future__ import annotations

import random
from collections import defaultdict

import msgspec
import pytest

from tests.admin.domain.delays.histories import a_history, a_need, a_run
from tickwheel_admin.domain.delays.charging import charge_delays
from tickwheel_admin.domain.delays.history import DelayHistory, DelayKind
from tickwheel_admin.domain.delays.matrix import DelayMatrix, answer, delay_matrix
from tickwheel_admin.domain.delays.rounding import whole_parts


def a_busy_day(seed: int, jobs: int = 12) -> DelayHistory:
    """One slot, claimed in no particular order; each fourth job is serial."""
    chance = random.Random(seed)
    runs, free_at = [], 0
    for run_id in range(1, 80):
        due_at = free_at - chance.randint(0, 900) if free_at > 900 else free_at
        claimed_at = free_at + chance.randint(0, 20)
        free_at = claimed_at + chance.randint(10, 300)
        job_id = chance.randrange(jobs)
        runs.append(
            a_run(
                run_id, due_at, claimed_at, free_at, job_id=job_id, need=int(job_id % 4 == 0)
            )
        )  # fmt: skip
    needs = (a_need(), a_need(is_parallel=False))
    return a_history(*runs, needs=needs, until_at=free_at)


@pytest.mark.parametrize(("seed", "shown"), [(1, 20), (2, 20), (3, 3), (4, 1)])
def test_rows_and_columns_add_up_to_what_was_waited(seed: int, shown: int) -> None:
    history = a_busy_day(seed)
    matrix = delay_matrix(history, shown=shown)
    waited = sum(sum(parts) for parts in charge_delays(history).parts.values())
    assert sum(row.ms for row in matrix.rows) == sum(matrix.kinds.values()) == waited > 0
    assert sum(row.runs for row in matrix.rows) == matrix.runs
    for place, cause in enumerate(matrix.causes):
        assert cause.ms == sum(row.caused_by[place] for row in matrix.rows)
    assert matrix.others_ms == sum(row.by_others for row in matrix.rows)
    for row in matrix.rows:
        charged = row.kinds.get(DelayKind.SLOT, 0) + row.kinds.get(DelayKind.BLOCKED, 0)
        assert abs(row.ms - row.uncharged - charged) <= 1
    assert (len(matrix.causes) == shown) == (matrix.other_causes > 0)
    if shown < 12:
        assert (matrix.rows[-1].job_id, matrix.rows[-1].jobs) == (None, 12 - shown)


def test_cells_are_the_sums_of_what_runs_are_charged() -> None:
    history = a_busy_day(5)
    rows = {run.id: place for place, run in enumerate(history.runs)}
    found = charge_delays(history, rows, count=len(rows))
    job_of = {run.id: run.job_id for run in history.runs}
    cells: defaultdict[tuple[int, int], float] = defaultdict(float)
    for (row, whom), ms in found.of_nodes.items():
        cells[history.runs[row].job_id, job_of[whom]] += ms
    matrix = delay_matrix(history)
    for row_of_job in matrix.rows:
        for cause, ms in zip(matrix.causes, row_of_job.caused_by, strict=True):
            assert row_of_job.job_id is not None
            expected = cells[row_of_job.job_id, cause.job_id]
            if row_of_job.job_id == cause.job_id:
                expected += row_of_job.kinds.get(DelayKind.BLOCKED, 0)
                assert cause.to_itself == ms
            assert abs(ms - expected) <= 1


def test_it_travels_as_json() -> None:
    history = a_busy_day(6)
    told = answer(msgspec.json.encode(history))
    assert msgspec.json.decode(told, type=DelayMatrix) == delay_matrix(history)
    empty = delay_matrix(a_history())
    assert (empty.rows, empty.causes, empty.runs, empty.kinds) == ((), (), 0, {})


def test_what_is_split_is_whole_again() -> None:
    assert whole_parts({1: 1 / 3, 2: 1 / 3, 3: 1 / 3}) == {1: 1, 2: 0, 3: 0}
    assert whole_parts({1: 2.5, 2: 0.5}) == {1: 3, 2: 0}
    assert whole_parts({}) == {}
