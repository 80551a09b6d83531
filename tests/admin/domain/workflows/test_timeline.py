"""The path that the length of a run hangs on."""

from __future__ import annotations

from tickwheel_admin.domain.workflows.graph import JobStep, Need, Step, Workflow
from tickwheel_admin.domain.workflows.states import StepState, StepStatus
from tickwheel_admin.domain.workflows.timeline import critical_path


def graph(**needs: str) -> Workflow:
    """Steps with the keys that each needs, in one text."""
    return Workflow(
        steps=tuple(
            Step(
                key=key,
                body=JobStep(job_id=1),
                needs=tuple(Need(step=need) for need in text.split()),
            )
            for key, text in needs.items()
        )
    )


DIAMOND = graph(a="", b="a", c="a", d="b c", e="")


def status(index: int, started_at: int | None, since: int, state: str) -> StepStatus:
    return StepStatus(
        workflow_run_id=1,
        step_index=index,
        state=StepState(state),
        since=since,
        started_at=started_at,
    )


def test_the_critical_path_goes_back_from_the_last_end() -> None:
    ended = [
        status(0, 0, 10, "succeeded"),
        status(1, 10, 20, "succeeded"),
        status(2, 10, 50, "failed"),
        status(3, 50, 60, "succeeded"),
        status(4, 0, 40, "succeeded"),
    ]
    assert critical_path(DIAMOND, ended) == [0, 2, 3]
    going_on = [*ended[:2], status(2, 10, 10, "running"), status(3, None, 0, "waiting"), ended[4]]
    assert critical_path(DIAMOND, going_on) == [0, 2]
    waiting = [status(index, None, 0, "waiting") for index in range(5)]
    assert critical_path(DIAMOND, waiting) == []
