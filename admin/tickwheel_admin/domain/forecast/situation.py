"""What a forecast begins with: the jobs of some executors, their nodes, and what is under way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.executors.node import Node
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.triggers.kinds import AnySpec
from tickwheel_admin.domain.workflows.states import StepState

ASSUMED_MS = 10_000  # how long a run takes where no run of its executor was measured


class MeasuredRun(NamedTuple):
    """How a run of the past went."""

    state: RunState  # its end
    duration_ms: int  # of its last try
    tries: int  # that it needed, at least 1


class MeasuredStep(NamedTuple):
    """How a step of a workflow's run of the past went, where the graph alone does not say it."""

    wanted: bool  # its condition held
    items: int | None  # of its list, or that its run spawned; None: it had none
    waited_ms: int  # of an approval or a wait: until it ended
    succeeded: bool


MeasuredGraph = Mapping[str, MeasuredStep]  # one run of a workflow: its steps by key


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastTrigger:
    """A trigger as it is stored, or as an edit would save it."""

    id: int
    spec: AnySpec
    saved_at: int
    next_fire_at: int | None  # None: it is not planned
    last_fire_at: int | None = None
    fires: int = 0  # runs that it brought so far
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastJob:
    """A job with what was measured of it."""

    id: int
    executor_id: int
    revision: int
    config: JobConfig
    paused: bool = False
    triggers: tuple[ForecastTrigger, ...] = ()
    measured: tuple[MeasuredRun, ...] = ()  # its last runs
    measured_since: int | None = None  # when the first of them was due
    last_success_at: int | None = None
    graphs: tuple[MeasuredGraph, ...] = ()  # of a workflow: its last runs, the newest first
    is_hidden: bool = False  # the handler or script of a workflow's step


class OpenStep(NamedTuple):
    """A step of a workflow's run that goes on, where it is more than waiting for others."""

    key: str
    state: StepState
    since: int  # when it came to this state
    due_at: int | None  # of a ready one: when it goes on by itself
    items: int | None
    next_item: int  # those before this one have begun
    items_failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run that has not ended when the forecast begins."""

    id: int
    job_id: int
    trigger_id: int | None
    origin: Origin
    scheduled_at: int
    due_at: int
    first_due_at: int
    priority: int
    tries: int = 0
    expires_at: int | None = None  # when it is too late to start
    pinned_node_id: int | None = None
    node_id: int | None = None  # where it runs; None: it is queued
    started_at: int | None = None
    is_workflow: bool = False
    # Of a workflow's step: the run of the workflow, and which step of it.
    parent_run_id: int | None = None
    step: str | None = None
    is_item: bool = False  # of a list, or spawned
    steps: tuple[OpenStep, ...] = ()  # of a workflow that has started

    @property
    def is_running(self) -> bool:
        """Whether it has started; a workflow has no node."""
        return self.node_id is not None or (self.is_workflow and self.started_at is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSituation:
    """Everything that a forecast needs; it can be written as JSON, and read again."""

    now: int
    jobs: tuple[ForecastJob, ...]
    nodes: tuple[Node, ...]  # live ones
    calendars: tuple[Calendar, ...] = ()
    pools: Mapping[int, int] = field(default_factory=dict)  # slots by id
    # The slots that a pool had when the open runs took theirs, where a change makes them others.
    pools_taken_of: Mapping[int, int] = field(default_factory=dict)
    paused: Mapping[int, int] = field(default_factory=dict)  # executor -> since when
    open_runs: tuple[OpenRun, ...] = ()


def workflows_of_steps(jobs: Iterable[ForecastJob]) -> dict[int, int]:
    """The workflow's job of each hidden one."""
    graphs = ((job.id, job.config.workflow) for job in jobs if job.config.workflow is not None)
    return {each.job_id: job_id for job_id, graph in graphs for each in graph.inline}
