"""The shape of what the API tells of executors, their nodes and secrets."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from tickwheel_admin.api.answers import Instant, Json, doc
from tickwheel_admin.api.runs.shapes import RunJson, RunSummaryJson
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.jobs.declared_job import CodeJobs


class ExecutorJson(TypedDict):
    """A service that can run jobs."""

    id: int
    name: str
    description: str
    protocol: Protocol
    live_nodes: int
    slots: Annotated[int, doc("Of its live nodes.")]
    in_use: int
    jobs: int
    waiting: Annotated[int, doc("Due runs that wait, counted up to 1,000.")]
    waiting_since: Instant | None
    paused_at: Instant | None
    old_token_until: Annotated[Instant | None, doc("The token before works until then.")]
    code_jobs: Annotated[CodeJobs, doc("What becomes of jobs declared in code.")]
    scripts: Annotated[bool, doc("Whether its jobs may have scripts.")]
    declared_waiting: Annotated[int, doc("Declared jobs that wait for a person.")]
    created_at: Instant | None


class CallsJson(TypedDict, total=False):
    """How an admin gets on with a node that it calls."""

    dialect: str | None
    last_beat_at: Instant | None
    calls: int
    errors: int
    last_error: str | None


class NodeJson(CallsJson):
    """A process of an executor."""

    id: int
    name: str
    state: NodeState
    draining: Annotated[bool, doc("As the node reports it.")]
    cordoned: bool
    drain_wanted: bool
    safe_to_stop: Annotated[bool, doc("It gets no runs and has none left.")]
    slots: int
    slots_wanted: Annotated[int | None, doc("Set by an operator; null: as the node says.")]
    in_use: int
    weight: int
    weight_wanted: int | None
    handlers: list[str]
    unstoppable: Annotated[list[str], doc("Handlers that cannot be stopped.")]
    labels: dict[str, str]
    sdk: str
    address: str
    connected_at: Instant | None
    seen_at: Annotated[Instant | None, doc("When an admin last heard from it.")]
    lease_expires_at: Instant | None
    ended_at: Instant | None


class NodeItemJson(NodeJson):
    """A node in the list of all."""

    executor_id: int
    executor_name: str


class NodeOfExecutorJson(NodeJson):
    """A node with what it runs."""

    running: list[RunSummaryJson]


class AdminConnectionJson(TypedDict):
    """An admin that a node is connected to."""

    admin_id: int
    admin_name: str
    connected_at: Instant | None


class NodeDetailJson(NodeJson):
    """A node with the runs that it runs."""

    executor_id: int
    executor_name: str
    running: Annotated[list[RunJson], doc("The oldest 200.")]
    heard_by: list[AdminConnectionJson]


class XxlAddressJson(TypedDict):
    """Where a process of an executor of XXL-JOB's protocol listens."""

    address: str
    registered_at: Annotated[Instant | None, doc("Null: set by hand.")]
    removed_at: Annotated[Instant | None, doc("Null: it is in use.")]
    node_id: int | None
    dialect: str | None
    last_beat_at: Instant | None
    calls: int
    errors: int
    last_error: str | None
    last_error_at: Instant | None


class XxlExecutorJson(TypedDict):
    """What an executor of XXL-JOB's protocol has besides; never its token."""

    app_name: str
    addresses: list[str] | None
    has_default_token: bool
    known_addresses: list[XxlAddressJson]


class ExecutorDetailJson(ExecutorJson):
    """An executor with its nodes and handlers."""

    handlers: list[str]
    schemas: Annotated[dict[str, Json], doc("By handler, the JSON Schema of what it takes.")]
    nodes: list[NodeOfExecutorJson]
    xxl_job: NotRequired[XxlExecutorJson]


class NewExecutorJson(TypedDict):
    """An executor that was made; its token is told only this once."""

    id: int
    name: str
    token: NotRequired[str]
    protocol: NotRequired[Protocol]


class NamedJobJson(TypedDict):
    """A job by name."""

    id: int
    name: str


class SecretJson(TypedDict):
    """A secret without its value."""

    name: str
    exists: Annotated[bool, doc("False: jobs name it, and there is none.")]
    readable: Annotated[bool, doc("The admin that answers has its key.")]
    version: Annotated[int, doc("Rises with each value.")]
    created_at: Instant | None
    created_by: str
    updated_at: Instant | None
    updated_by: str
    last_used_at: Annotated[Instant | None, doc("To the hour.")]
    jobs: list[NamedJobJson]
