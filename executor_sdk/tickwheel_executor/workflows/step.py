"""A step of a declared workflow, in the form in which it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tickwheel_shared.workflows.parts import Need, NeedOutcome, Tolerance

from .references import Reference


class NamedWorkflow(Protocol):
    """A workflow of this program."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerBody:
    """Runs a handler: a function of this executor, or its name."""

    handler: Callable[..., Any] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBody:
    """Runs a job, or another workflow."""

    kind: str  # "job" or "workflow"
    job: str | NamedWorkflow  # its name, or one of this program


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptBody:
    """Runs a script."""

    script: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalBody:
    """Waits until somebody approves or declines."""

    approval: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitBody:
    """Waits for a duration, or until an instant."""

    wait: Mapping[str, Any]  # either "seconds" or "until"


Body = HandlerBody | JobBody | ScriptBody | ApprovalBody | WaitBody


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """A step; others name it in their `needs`, and what it returns in their parameters."""

    key: str
    body: Body = field(repr=False)
    needs: tuple[Need, ...] = ()
    when: str | None = None
    items: str | None = field(default=None, repr=False)  # JSON text; None: no `for_each`
    max_parallel: int | None = None
    tolerate: int | str = 0
    tolerance: Tolerance = field(default=Tolerance(), repr=False)  # the same
    parameters: str = field(default="{}", repr=False)  # JSON text
    pause_before: bool = False
    description: str = field(default="", repr=False)
    executor: str | None = None  # None: the workflow's
    rules: Mapping[str, Any] = field(default_factory=dict, repr=False)  # as they are sent

    @property
    def result(self) -> Reference:
        """What it returns; of a step with `for_each` the list of its items' results."""
        return Reference(("steps", self.key, "result"))

    @property
    def state(self) -> Reference:
        """How it ended: succeeded, failed, timed_out, lost, cancelled or skipped."""
        return Reference(("steps", self.key, "state"))

    @property
    def succeeded(self) -> Need:
        """For `needs`: it has succeeded, as the step alone means."""
        return Need(step=self.key)

    @property
    def failed(self) -> Need:
        """For `needs`: it has failed in any way, and this step is for that."""
        return Need(step=self.key, outcome=NeedOutcome.FAILED)

    @property
    def ended(self) -> Need:
        """For `needs`: it has ended in any way."""
        return Need(step=self.key, outcome=NeedOutcome.ENDED)

    @property
    def skipped(self) -> Need:
        """For `needs`: it was skipped."""
        return Need(step=self.key, outcome=NeedOutcome.SKIPPED)
