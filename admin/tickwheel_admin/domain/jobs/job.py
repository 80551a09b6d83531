"""A job: what to run, and how."""

from __future__ import annotations

from dataclasses import dataclass, field

from tickwheel_admin.domain.alarms.job_alarm import JobAlarm
from tickwheel_admin.domain.jobs.children import ChildLink
from tickwheel_admin.domain.pools.pool import NO_SLOTS_NEEDED, PoolShare
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import PLAIN, WHOLE_FIRE, WORKFLOW
from tickwheel_admin.domain.runs.script import Script
from tickwheel_admin.domain.triggers.kinds import AnySpec
from tickwheel_admin.domain.workflows.graph import Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """Everything a revision of a job says; immutable once stored, and what a run keeps."""

    name: str  # 1..200 characters, unique within its executor
    handler: str  # name of a handler that the executor's nodes register
    script: Script | None = None  # of a script job, whose handler is `script`
    description: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    parameters: str = "{}"  # text of a JSON object, <= 64 KiB
    routing: RoutingPolicy = field(default_factory=RoutingPolicy)
    blocking: BlockingPolicy = field(default_factory=BlockingPolicy)
    priority: int = 5  # 1..9, smaller is claimed first
    pool: PoolShare | None = None  # whose slots its runs share with those of other jobs
    timeout_ms: int | None = None  # 1,000..604,800,000; None: no limit
    start_within_ms: int | None = None  # 1,000..604,800,000: what starts later is skipped
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    children: tuple[ChildLink, ...] = ()  # jobs that its ends ask for; at most MAX_CHILDREN
    alarms: tuple[JobAlarm, ...] = ()  # rules about this job; at most MAX_ALARMS
    triggers: tuple[AnySpec, ...] = ()
    workflow: Workflow | None = None  # of a workflow, whose handler is `workflow`

    @property
    def is_sharded(self) -> bool:
        """Whether a fire becomes several runs when it is claimed."""
        return self.routing.record.split is not None

    @property
    def keeps_state(self) -> bool:
        """Whether its runs go one after another, so that each can hand something to the next."""
        one_by_one = self.blocking.strategy is not Blocking.PARALLEL
        return one_by_one and self.blocking.concurrency == 1 and not self.is_sharded

    @property
    def has_fixed_delay(self) -> bool:
        """Whether the end of a run may arm a trigger."""
        return any(spec.follows_runs for spec in self.triggers)

    @property
    def shard_index(self) -> int:
        """What the run of a new fire or request is written with.

        WHOLE_FIRE and WORKFLOW have no node: the claim writes the runs that do their work.
        """
        if self.workflow is not None:
            return WORKFLOW
        return WHOLE_FIRE if self.is_sharded else PLAIN

    @property
    def pool_id(self) -> int | None:
        """What the run of a new fire or request is written with: the claim reads it there.

        A whole fire takes no slot: its shards do.
        """
        if self.workflow is not None:
            return NO_SLOTS_NEEDED
        return None if self.pool is None or self.is_sharded else self.pool.pool_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job with its current configuration."""

    id: int
    executor_id: int
    revision: int  # rises with every edit; an edit must name the one it was made from
    config: JobConfig
    paused: bool
    created_at: int
    updated_at: int
