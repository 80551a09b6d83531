"""What the last runs of a job say about it."""

from __future__ import annotations

import pytest

from tickwheel_admin.console.jobs.figures import failures_in_a_row, percentile
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.jobs.service import RunSummary


@pytest.mark.parametrize(
    ("values", "p50", "p95"),
    [
        ([], None, None),
        ([7], 7, 7),
        ([1, 2], 1, 2),
        ([3, 1, 2], 2, 3),
        (range(1, 21), 10, 19),
        (range(1, 101), 50, 95),
        (range(1, 22), 11, 20),
    ],
)
def test_a_percentile_is_one_of_the_values(
    values: list[int], p50: int | None, p95: int | None
) -> None:
    assert (percentile(values, 50), percentile(values, 95)) == (p50, p95)


@pytest.mark.parametrize(
    ("states", "count"),
    [
        ("", 0),
        ("succeeded", 0),
        ("succeeded failed", 1),
        ("failed succeeded failed timed_out lost", 3),
        ("failed failed skipped running", 2),
        ("failed cancelled failed", 2),
        ("failed succeeded", 0),
    ],
)
def test_failures_are_counted_back_to_the_last_success(states: str, count: int) -> None:
    marks = [
        RunSummary(
            id=n,
            state=RunState(state),
            scheduled_at=n,
            started_at=None,
            ended_at=None,
            progress=None,
        )
        for n, state in enumerate(states.split())
    ]

    assert failures_in_a_row(marks) == count
