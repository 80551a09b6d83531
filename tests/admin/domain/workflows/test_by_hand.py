"""What waits again when a step counts as passed."""

from __future__ import annotations

import pytest

from tests.admin.domain.workflows.test_retries import statuses
from tests.admin.kit.workflows import step
from tickwheel_admin.domain.workflows.by_hand import wait_again
from tickwheel_admin.domain.workflows.graph import Workflow

GRAPH = Workflow(
    steps=(step("a"), step("b", "a"), step("c", "b"), step("d", "b:skipped"), step("e", "d"))
)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("failed skipped/needs skipped/needs succeeded succeeded", [1, 2]),
        ("failed skipped/needs skipped/needs running waiting", [1, 2]),
        # Its condition did not hold: that has nothing to do with the step.
        ("failed skipped/when skipped/needs succeeded succeeded", []),
        ("failed skipped/needs skipped/needs skipped/needs skipped/needs", [1, 2, 3, 4]),
        ("waiting waiting waiting waiting waiting", []),
    ],
)
def test_what_was_skipped_because_of_a_step_waits_again(told: str, expected: list[int]) -> None:
    assert wait_again(GRAPH, statuses(GRAPH, told), 0) == expected
