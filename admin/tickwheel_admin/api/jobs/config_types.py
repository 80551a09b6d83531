"""The type of a job's configuration as requests and answers write it.

The parser in `domain/input/job.py` has the rules that a schema cannot say; a test compares the
names of both. Fields without meaning are null, which counts as left out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

from msgspec import Meta

from tickwheel_admin.api.answers import doc
from tickwheel_admin.api.rule_types import JobAlarmJson
from tickwheel_admin.api.trigger_types import Trigger
from tickwheel_admin.domain.input import job as rules
from tickwheel_admin.domain.input import routing, run_rules, workflow_bodies, workflow_steps
from tickwheel_admin.domain.input.job_alarms import MAX_ALARMS
from tickwheel_admin.domain.jobs.children import MAX_CHILDREN, ChildOn
from tickwheel_admin.domain.pools.pool import MAX_SLOTS
from tickwheel_admin.domain.routing.selector import MAX_SELECTOR_CHARS
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, WhenCutOff
from tickwheel_admin.domain.runs.script import MAX_REMARK_CHARS
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.domain.workflows.graph import MAX_KEY_CHARS, MAX_STEPS, NeedOutcome, Silence
from tickwheel_admin.web.input_fields import MAX_ID

_Id = Annotated[int, Meta(ge=1, le=MAX_ID)]
_Name = Annotated[str, Meta(max_length=rules.MAX_NAME_CHARS)]


class ScriptConfigJson(TypedDict, total=False):
    """A script."""

    language: Required[str]
    source: Annotated[str | None, doc("At most 256 KiB; lists leave it out.")]
    sha256: Annotated[str | None, doc("Of the source; alone, it stands for the current one.")]
    remark: Annotated[str, Meta(max_length=MAX_REMARK_CHARS)] | None
    signature: Annotated[str | None, doc("Of `tickwheel script sign`, in base64.")]


class _RoutingFields(TypedDict, total=False):
    routing: Routing | None
    shards: Annotated[int, Meta(ge=1, le=routing.MAX_SHARDS)] | None
    nodes: (
        Annotated[
            list[Annotated[str, Meta(max_length=routing.MAX_NODE_CHARS)]],
            Meta(max_length=routing.MAX_NODES),
        ]
        | None
    )
    selector: Annotated[str, Meta(max_length=MAX_SELECTOR_CHARS)] | None
    hash_by: Annotated[str, Meta(max_length=routing.MAX_HASH_BY_CHARS)] | None


class _RetryFields(TypedDict, total=False):
    retries: Annotated[int, Meta(ge=0, le=run_rules.MAX_RETRIES)] | None
    retry_delay_seconds: (
        Annotated[float, Meta(ge=0, le=run_rules.MAX_RETRY_DELAY_MS // 1000)] | None
    )
    retry_backoff: Literal["exponential", "fixed"] | None
    retry_max_delay_seconds: (
        Annotated[float, Meta(ge=0, le=run_rules.MAX_LONGEST_DELAY_MS // 1000)] | None
    )
    retry_jitter: Annotated[float, Meta(ge=0, le=1)] | None
    retry_on: Annotated[list[Literal["failed", "timed_out"]], Meta(max_length=10)] | None
    retry_on_lost: bool | None


class _PoolFields(TypedDict, total=False):
    pool: Annotated[str | None, doc("Name of a pool.")]
    pool_slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] | None


class JobNameJson(TypedDict):
    """A job of another executor by its name."""

    executor: int | str
    name: str


class ChildConfigJson(TypedDict):
    """A job that runs when another has ended."""

    job: Annotated[_Id | str | JobNameJson, doc("An id; requests may name it as in YAML.")]
    on: NotRequired[ChildOn | None]


class NeedConfigJson(TypedDict):
    """A step that must have ended before."""

    step: Annotated[str, Meta(max_length=MAX_KEY_CHARS)]
    outcome: NotRequired[NeedOutcome | None]


class ApprovalConfigJson(TypedDict, total=False):
    """A step that people answer."""

    people: list[str] | None
    roles: list[Role] | None
    deadline_seconds: Annotated[float, Meta(ge=1, le=workflow_bodies.MAX_WAIT_MS // 1000)] | None
    silence: Silence | None
    message: Annotated[str, Meta(max_length=workflow_bodies.MAX_MESSAGE_CHARS)] | None


class WaitConfigJson(TypedDict, total=False):
    """A step that waits; one of the two."""

    seconds: Annotated[float, Meta(ge=0.001, le=workflow_bodies.MAX_WAIT_MS // 1000)] | None
    until: Annotated[str | None, doc("An instant, or the path to one.")]


class SpawnConfigJson(TypedDict, total=False):
    """How the runs that a step's run spawns are treated."""

    max_parallel: Annotated[int, Meta(ge=1)] | None
    tolerate: Annotated[int | str | None, doc("A number, a percentage such as `5%`, or `all`.")]


class StepConfigJson(_RoutingFields, _RetryFields, _PoolFields, total=False):
    """A step of a workflow: one of job, handler, script, workflow, approval and wait."""

    key: Required[Annotated[str, Meta(max_length=MAX_KEY_CHARS)]]
    job: Annotated[int | str | JobNameJson | None, doc("An id; requests may name it as in YAML.")]
    handler: _Name | None
    script: ScriptConfigJson | None
    workflow: Annotated[int | str | JobNameJson | None, doc("A job with a workflow, as in `job`.")]
    approval: ApprovalConfigJson | None
    wait: WaitConfigJson | None
    needs: (
        Annotated[
            list[Any],
            Meta(
                max_length=workflow_steps.MAX_NEEDS,
                description="Keys of steps, or objects with `step` and `outcome`: `succeeded`,"
                " `failed` or `always`.",
            ),
        ]
        | None
    )
    when: Annotated[str | None, doc("A condition.")]
    for_each: Annotated[
        Any, doc("A list, the path to one, or an object: `items`, `max_parallel`, `tolerate`.")
    ]
    spawn: SpawnConfigJson | None
    parameters: dict[str, Any] | None
    pause_before: bool | None
    description: Annotated[str, Meta(max_length=workflow_steps.MAX_DESCRIPTION_CHARS)] | None
    executor: Annotated[int | str | None, doc("Of a handler or script; the job's, if left out.")]
    timeout_seconds: Annotated[float, Meta(ge=1, le=workflow_bodies.MAX_TIMEOUT_MS // 1000)] | None
    priority: Annotated[int, Meta(ge=1, le=9)] | None


class WorkflowConfigJson(TypedDict, total=False):
    """The steps of a workflow."""

    steps: Required[Annotated[list[StepConfigJson], Meta(min_length=1, max_length=MAX_STEPS)]]
    output: Annotated[str | None, doc("Key of the step whose result is the workflow's.")]


class JobConfigJson(_RoutingFields, _RetryFields, _PoolFields, total=False):
    """What a job runs, and how."""

    name: Required[_Name]
    handler: Annotated[_Name | None, doc("What the nodes run.")]
    script: ScriptConfigJson | None
    workflow: WorkflowConfigJson | None
    description: Annotated[str, Meta(max_length=rules.MAX_DESCRIPTION_CHARS)] | None
    owner: Annotated[str, Meta(max_length=rules.MAX_OWNER_CHARS)] | None
    tags: (
        Annotated[
            list[Annotated[str, Meta(max_length=rules.MAX_TAG_CHARS)]],
            Meta(max_length=rules.MAX_TAGS),
        ]
        | None
    )
    parameters: Annotated[dict[str, Any] | None, doc("What the handler gets; at most 64 KiB.")]
    blocking: Blocking | None
    concurrency: Annotated[int, Meta(ge=1, le=run_rules.MAX_CONCURRENCY)] | None
    max_waiting: Annotated[int, Meta(ge=0, le=run_rules.MAX_WAITING)] | None
    when_cut_off: WhenCutOff | None
    hold_lost_seconds: (
        Annotated[
            float,
            Meta(ge=run_rules.MIN_HOLD_LOST_MS // 1000, le=run_rules.MAX_HOLD_LOST_MS // 1000),
        ]
        | None
    )
    priority: Annotated[int, Meta(ge=1, le=9, description="Smaller numbers start first.")] | None
    timeout_seconds: Annotated[float, Meta(ge=1, le=rules.MAX_TIMEOUT_MS // 1000)] | None
    start_within_seconds: Annotated[float, Meta(ge=1, le=rules.MAX_START_WITHIN_MS // 1000)] | None
    children: Annotated[list[ChildConfigJson], Meta(max_length=MAX_CHILDREN)] | None
    alarms: Annotated[list[JobAlarmJson], Meta(max_length=MAX_ALARMS)] | None
    triggers: Annotated[list[Trigger], Meta(max_length=rules.MAX_TRIGGERS)] | None


class NewJobJson(JobConfigJson, total=False):
    """A job to add."""

    executor_id: Required[_Id]


class OneOfNewJobsJson(JobConfigJson, total=False):
    """One of many jobs to add."""

    executor_id: Annotated[_Id | None, doc("The one of the request, if left out.")]


class JobChangeJson(JobConfigJson, total=False):
    """A job's new configuration."""

    id: Annotated[_Id | None, doc("As in the address.")]
    revision: Required[Annotated[_Id, doc("The revision that the change is based on.")]]
