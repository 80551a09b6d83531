"""What can be said of a step, beside its key and what it does: as in YAML (docs/workflows.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from tickwheel_executor.handlers.job_fields import PoolFields, RetryFields, RoutingFields, Seconds
from tickwheel_shared.workflows.parts import Need

from .references import Reference
from .step import Step


class StepFields(TypedDict, total=False):
    """Fields of steps of every kind."""

    # A step that must have succeeded, or how it must have ended: `[extract, convert.failed]`.
    needs: Sequence[Step | Need | str]
    when: str  # a condition; while it does not hold, the step is skipped
    pause_before: bool  # a person lets it go on
    description: str
    output: bool  # its result is that of the workflow


class RunFields(StepFields, total=False):
    """Fields of steps that run something."""

    parameters: Mapping[str, Any]  # may hold references
    for_each: Sequence[Any] | Reference | str  # one run for each item of this list
    # Of the items of its list, or of those that its handler spawns:
    max_parallel: int  # at once; 1,000 without
    tolerate: int | str  # how many may fail: a number, "5%" or "all"
    executor: str  # another one than the workflow's


class OwnRunFields(RunFields, RoutingFields, PoolFields, RetryFields, total=False):
    """Fields of steps that run no job of their own: where and how often they do."""

    timeout_seconds: Seconds
    priority: int


STEP_FIELDS = tuple(StepFields.__annotations__)
RUN_FIELDS = tuple(RunFields.__annotations__)
OWN_RUN_FIELDS = tuple(OwnRunFields.__annotations__)
RULES = tuple(name for name in OWN_RUN_FIELDS if name not in RUN_FIELDS)
