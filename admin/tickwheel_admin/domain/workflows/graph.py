"""A workflow: its steps and what each of them waits for. What a revision of its job says.

People's form of it is read by `domain.input.workflow`. A graph that is stored has no circle, every
step that `needs` names is in it, and keys differ; whoever reads one may rely on that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import msgspec
from msgspec import structs

from tickwheel_admin.domain.pools.pool import PoolShare
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.script import Script
from tickwheel_shared.workflows.parts import MAX_ITEMS as MAX_ITEMS
from tickwheel_shared.workflows.parts import MAX_KEY_CHARS as MAX_KEY_CHARS
from tickwheel_shared.workflows.parts import MAX_STEPS as MAX_STEPS
from tickwheel_shared.workflows.parts import Need as Need
from tickwheel_shared.workflows.parts import NeedOutcome as NeedOutcome
from tickwheel_shared.workflows.parts import Tolerance as Tolerance

HANDLER = "workflow"  # the handler of every job that has a workflow
MAX_DEPTH = 10  # workflows within each other, the outermost counted


class Silence(StrEnum):
    """What it means that nobody answered an approval by its deadline."""

    APPROVE = "approve"
    DECLINE = "decline"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRules:
    """How the runs of a step that is no job of its own are placed and tried again."""

    routing: RoutingPolicy = field(default_factory=RoutingPolicy)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout_ms: int | None = None  # 1,000..604,800,000; None: no limit
    priority: int | None = None  # 1..9; None: the workflow's
    pool: PoolShare | None = None  # whose slots its runs take


class JobStep(msgspec.Struct, frozen=True, kw_only=True, tag="job", tag_field="kind"):
    """Runs an existing job: the revision that is current when the step starts."""

    job_id: int


class HandlerStep(msgspec.Struct, frozen=True, kw_only=True, tag="handler", tag_field="kind"):
    """Runs a handler; its run is that of a hidden job (`Workflow.inline`)."""

    handler: str
    executor_id: int | None = None  # None: the workflow's own
    rules: StepRules = StepRules()


class ScriptStep(msgspec.Struct, frozen=True, kw_only=True, tag="script", tag_field="kind"):
    """Runs a script; its run is that of a hidden job (`Workflow.inline`)."""

    script: Script
    executor_id: int | None = None  # None: the workflow's own
    rules: StepRules = StepRules()


class SubWorkflow(msgspec.Struct, frozen=True, kw_only=True, tag="workflow", tag_field="kind"):
    """Runs a job that is a workflow itself."""

    job_id: int


class Approval(msgspec.Struct, frozen=True, kw_only=True, tag="approval", tag_field="kind"):
    """Waits until somebody approves or declines; declined, it has failed.

    With neither people nor roles, whoever may operate the workflow answers.
    """

    people: tuple[str, ...] = ()  # names of users, at most 50
    roles: tuple[str, ...] = ()  # viewer, operator, developer, admin
    deadline_ms: int | None = None  # 1,000..2,592,000,000 after it was asked; None: for ever
    silence: Silence = Silence.DECLINE
    message: str = ""  # what is asked, at most 2,000 characters


class Wait(msgspec.Struct, frozen=True, kw_only=True, tag="wait", tag_field="kind"):
    """Waits for a duration, or until an instant; exactly one of the two is given."""

    duration_ms: int | None = None  # 1..2,592,000,000
    until: str | None = None  # ISO 8601 with its offset, or `${…}` that gives one


Body = JobStep | HandlerStep | ScriptStep | SubWorkflow | Approval | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class ForEach:
    """One run for each item of a list."""

    items: str  # JSON text: a list, or a text with `${…}` that gives one
    max_parallel: int | None = None  # 1..MAX_ITEMS; None: all at once
    tolerance: Tolerance = Tolerance()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """How the items are run that the step's own run hands over with its result."""

    max_parallel: int | None = None  # 1..MAX_ITEMS; None: all at once
    tolerance: Tolerance = Tolerance()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step; its index in the graph is what the store knows it by."""

    key: str  # unique in its graph: 1..MAX_KEY_CHARS of a-z, 0-9, hyphen, underscore
    body: Body
    needs: tuple[Need, ...] = ()  # all of them must hold; (): it starts at once
    when: str | None = None  # a condition (`tickwheel_shared.workflows`); not met: skipped
    for_each: ForEach | None = None
    spawn: Spawn | None = None  # None: as `Spawn()`, if its run spawns at all
    parameters: str = "{}"  # text of a JSON object whose texts may hold `${…}`, <= 64 KiB
    pause_before: bool = False  # a breakpoint: a person lets it go on
    description: str = ""


_SPAWN = Spawn()


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineJob:
    """The hidden job of a step that names a handler or a script, written with its workflow."""

    step: str
    job_id: int
    revision: int


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A graph of steps."""

    # Not slotted: what is computed from it once is kept with it.
    steps: tuple[Step, ...]  # 1..MAX_STEPS
    output: str | None = None  # key of the step whose result is that of the workflow
    # Of every handler and script step once it is stored. Two workflows that say the same are equal.
    inline: tuple[InlineJob, ...] = field(default=(), compare=False)

    @cached_property
    def index_of(self) -> Mapping[str, int]:
        """The index of each step by its key."""
        return {step.key: index for index, step in enumerate(self.steps)}

    @cached_property
    def inline_jobs(self) -> Mapping[str, InlineJob]:
        """The hidden jobs by the keys of their steps; empty before it is stored."""
        return {each.step: each for each in self.inline}

    def items_of(self, index: int) -> ForEach | Spawn:
        """How the items of a step are run: those of its list, or those that its run spawned."""
        step = self.steps[index]
        return step.for_each or step.spawn or _SPAWN

    @property
    def job_ids(self) -> tuple[int, ...]:
        """The jobs that its steps run, in their order; hidden ones are left out."""
        return tuple(
            step.body.job_id for step in self.steps if isinstance(step.body, JobStep | SubWorkflow)
        )

    @property
    def inline_steps(self) -> tuple[Step, ...]:
        """The steps that have a hidden job each."""
        inline = (HandlerStep, ScriptStep)
        return tuple(step for step in self.steps if isinstance(step.body, inline))

    @property
    def executor_ids(self) -> frozenset[int]:
        """Executors that its handlers and scripts name; the workflow's own is left out."""
        named = (step.body for step in self.inline_steps)
        return frozenset(
            body.executor_id
            for body in named
            if isinstance(body, HandlerStep | ScriptStep) and body.executor_id is not None
        )

    @property
    def is_open(self) -> bool:
        """Whether its runs may go differently although all steps succeed."""
        return any(
            step.when is not None
            or (step.for_each is not None and "${" in step.for_each.items)
            or isinstance(step.body, Approval)
            or (isinstance(step.body, Wait) and "${" in (step.body.until or ""))
            for step in self.steps
        )

    def step(self, key: str) -> Step:
        """The step of that key; KeyError if there is none."""
        return self.steps[self.index_of[key]]

    def job_of(self, key: str) -> tuple[int, int | None] | None:
        """The job that a step runs, and which revision of it; None: its current one.

        None in all for an approval and a wait. KeyError for an inline step of a graph that is
        not stored.
        """
        match self.step(key).body:
            case JobStep(job_id=job_id) | SubWorkflow(job_id=job_id):
                return job_id, None
            case HandlerStep() | ScriptStep():
                inline = self.inline_jobs[key]
                return inline.job_id, inline.revision
        return None

    def unchanged_since(self, before: Workflow | None) -> frozenset[str]:
        """Keys of the steps that were wholly the same in an earlier graph; a remark counts."""
        if before is None:
            return frozenset()
        earlier = {step.key: step for step in before.steps}
        return frozenset(step.key for step in self.steps if earlier.get(step.key) == step)

    def without_sources(self) -> Workflow:
        """The same with its scripts known by their hashes alone, as revisions are stored."""
        return self._with(lambda script: replace(script, source=None))

    def without_texts(self) -> Workflow:
        """The same without what only people and its runs read: parameters, scripts, remarks."""
        bare = self.without_sources()
        steps = tuple(replace(each, parameters="{}", description="") for each in bare.steps)
        return replace(bare, steps=steps)

    def with_sources(self, sources: Mapping[str, str]) -> Workflow:
        """The same with the sources of its scripts, by hash, where they are not there."""
        return self._with(
            lambda script: replace(script, source=script.source or sources.get(script.sha256))
        )

    def _with(self, change: Callable[[Script], Script]) -> Workflow:
        return replace(self, steps=tuple(_changed(step, change) for step in self.steps))


def _changed(step: Step, change: Callable[[Script], Script]) -> Step:
    body = step.body
    if not isinstance(body, ScriptStep):
        return step
    return replace(step, body=structs.replace(body, script=change(body.script)))
