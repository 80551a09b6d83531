"""What the last runs of a job say about it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tickwheel_admin.console.jobs.figures import failures_in_a_row, figures_of, percentile
from tickwheel_admin.domain.runs.run import Origin, RunState
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


def test_a_try_of_a_script_counts_in_no_figure() -> None:
    def item(origin: Origin, state: RunState, ended_at: int) -> Any:
        times = {"scheduled_at": 0, "started_at": 10, "ended_at": ended_at, "tries": 1}
        return SimpleNamespace(run=SimpleNamespace(origin=origin, state=state, **times))

    own = item(Origin.SCHEDULE, RunState.SUCCEEDED, 30)
    tried = item(Origin.TRY, RunState.FAILED, 5_000)
    assert figures_of([tried, own]) == figures_of([own])


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
            created_at=n,
            origin=Origin.SCHEDULE,
        )
        for n, state in enumerate(states.split())
    ]

    assert failures_in_a_row(marks) == count
