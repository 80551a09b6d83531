"""How a workflow under test ended, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .handler_end import HandlerEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """One try of a step, or of one of its items."""

    parameters: Mapping[str, Any]
    end: HandlerEnd
    item_index: int | None = None  # None: no item
    try_number: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd:
    """How a step ended."""

    state: str  # as `${steps.KEY.state}` is: succeeded, skipped, failed, timed_out
    reason: str | None  # needs, when, by_handler, items_failed, declined, value.missing …
    message: str  # for people
    result: Any  # with `for_each` the list of its items' results; None if it did not succeed
    runs: Sequence[StepRun]  # in the order in which they ended

    @property
    def succeeded(self) -> bool:
        """Whether it succeeded."""
        return self.state == "succeeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowEnd:
    """How a workflow ended."""

    outcome: str  # succeeded, failed
    result: Any  # of its output
    failed: Sequence[str]  # keys of the steps that it failed by
    steps: Mapping[str, StepEnd]  # by key, in the order in which they were declared
    began: Sequence[str]  # keys of the steps that ran or waited, in the order of their begin
    seconds: float  # that waits and delays would have taken

    @property
    def succeeded(self) -> bool:
        """Whether it succeeded."""
        return self.outcome == "succeeded"
