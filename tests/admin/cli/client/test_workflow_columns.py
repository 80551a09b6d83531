"""What `tickwheel workflow steps` says of a step that waits."""

from __future__ import annotations

from typing import Any

import pytest

from tickwheel_admin.cli.client.groups.workflows import _state, _waits_for

STEP: dict[str, Any] = {
    "state": "running", "run_state": None, "reason": None, "waits_for": [], "due_at": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("step", "state", "waits_for"),
    [
        ({"run_state": "running"}, "running", None),
        ({"run_state": "queued"}, "queued", None),
        ({"state": "waiting", "waits_for": ["a", "b"]}, "waiting", "a, b"),
        ({"state": "ready", "reason": "breakpoint"}, "ready", "a person"),
        ({"state": "ready", "reason": "approval", "due_at": "T"}, "ready", "approval, until T"),
        ({"state": "ready", "reason": "wait", "due_at": "T"}, "ready", "its instant, until T"),
    ],
)
def test_a_step_says_what_it_waits_for(
    step: dict[str, Any], state: str, waits_for: str | None
) -> None:
    assert _state(STEP | step) == state
    assert _waits_for(STEP | step) == waits_for
