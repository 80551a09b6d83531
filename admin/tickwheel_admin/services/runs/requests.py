"""Runs that somebody asks for: by hand, through the API, or as a retry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlalchemy as sa
from msgspec import structs

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.input.json_text import HUGE_NUMBER_REFUSED
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.planning.fires import merged_parameters, new_run, shards_of
from tickwheel_admin.domain.runs.blocking import Blocking
from tickwheel_admin.domain.runs.moves import expanded, node_gone
from tickwheel_admin.domain.runs.run import Origin, Run
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.handlers.scripts import noted
from tickwheel_admin.services.runs.parameters import check_run_parameters
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.ids import TooFewIds
from tickwheel_admin.store.executors.executors import get_node
from tickwheel_admin.store.executors.nodes import ended_nodes, live_nodes
from tickwheel_admin.store.runs.inserts import find_request, insert_fires, insert_requested_run
from tickwheel_admin.store.runs.lanes import count_live
from tickwheel_admin.store.runs.runs import blocking_key_of
from tickwheel_admin.store.system.audit import write_audit
from tickwheel_shared.portable_json import HUGE_NUMBER, why_not_portable
from tickwheel_shared.protocol import MAX_PARAMETERS_BYTES

MAX_KEY_CHARS = 100
MAX_DELAY_MS = 30 * 86_400_000
# What the keys of steps (`domain.workflows.states`) and of backfills begin with.
ENGINE_KEYS = ("step:", "item:", "spawned:", "backfill:")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRun:
    """Who asks for a run, and how it differs from the job's own."""

    actor: Actor
    origin: Origin
    parameters: str | None = None  # JSON object laid over the job's; None: nothing
    base: str | None = None  # laid over this instead: what the run that is retried was given
    nominal_at: int | None = None  # the instant that it works for; None: that it is due at
    interval_start: int | None = None  # the instant before that one, by the schedule
    request_key: str | None = None
    retry_of: int | None = None
    node_id: int | None = None  # runs nowhere else
    node: str | None = None  # the same by its name
    delay_ms: int = 0  # due so long after it was asked for
    trace: str | None = None  # that the run becomes part of (domain.runs.trace); None: of none
    noted: Mapping[str, object] = field(default_factory=dict)  # also told by the audit entry


def check_request_key(key: str | None) -> None:
    """Raise InvalidInput for a key that cannot be stored, or that only the engine gives."""
    if key is None:
        return
    if key.startswith(ENGINE_KEYS):
        raise InvalidInput.one(
            "request_key",
            "request_key.reserved",
            "Keys that begin with “%(prefix)s” are kept for runs that workflows and backfills"
            " make.",
            prefix=key.partition(":")[0] + ":",
        )
    if not (0 < len(key) <= MAX_KEY_CHARS and is_clean(key)):
        raise InvalidInput.one(
            "request_key",
            "request_key.invalid",
            "A request key has 1 to %(limit)d characters and no control characters.",
            limit=MAX_KEY_CHARS,
        )


def check_delay(delay_ms: int) -> None:
    """Raise InvalidInput for a delay that is negative or longer than 30 days."""
    if not 0 <= delay_ms <= MAX_DELAY_MS:
        raise InvalidInput.one(
            "delay_seconds",
            "out_of_range",
            "This must lie between %(low)s and %(high)s.",
            low="0",
            high=f"{MAX_DELAY_MS // 1000:,}",
        )


def request_run(
    conn: sa.Connection, job: Job, request: RequestedRun, *, run_ids: Sequence[int], audit_id: int
) -> int:
    """Queue one run of a locked job; returns the run that already has the key, if any.

    Raises:
        InvalidInput: the parameters, laid over the job's, are too large or not what the handler
            takes; the node that was asked for cannot run it.
        TooFewIds: it needs one id.
    """
    if not run_ids:
        raise TooFewIds(1)
    if request.request_key is not None:
        # Before anything is refused: what was asked for once may be asked for again.
        standing = find_request(conn, job.id, request.request_key)
        if standing is not None:
            return standing
    now = now_ms(conn)
    request = replace(request, node_id=_chosen_node(conn, job, request, now=now))
    run = _requested(conn, job, request, run_id=run_ids[0], now=now)
    asked = insert_requested_run(conn, run)
    if asked == run.id:
        _note(conn, job, request, run_id=run.id, audit_id=audit_id)
    return asked


def request_shards(
    conn: sa.Connection,
    job: Job,
    request: RequestedRun,
    shards: Sequence[Run],
    *,
    run_ids: Sequence[int],
    audit_id: int,
) -> int:
    """Do some shards of an earlier run of a locked job again, as a new fire with only these.

    They keep their indices, and those of a broadcast their nodes. The fire is written as running,
    as a claim would have left it; so what a claim decides for whole fires is decided here.

    Raises:
        Conflict: run.not_sharded, run.nodes_gone, run.job_busy.
        TooFewIds: it needs an id for the fire and one for each shard.
    """
    if not job.config.is_sharded:
        raise Conflict(
            "run.not_sharded",
            "The job is no longer cut into shards; retry the whole run instead.",
        )
    if len(run_ids) <= len(shards):
        raise TooFewIds(1 + len(shards))
    gone = ended_nodes(conn, {s.pinned_node_id for s in shards if s.pinned_node_id is not None})
    if all(shard.pinned_node_id in gone for shard in shards):
        raise Conflict(
            "run.nodes_gone",
            "The nodes of these shards have ended; retry the whole run instead.",
        )
    _check_place(conn, job)
    now = now_ms(conn)
    queued = _requested(conn, job, request, run_id=run_ids[0], now=now)
    total = shards[0].shard_total
    fire = expanded(queued, shards=total, now=now).after
    if fire.blocking_key is not None:
        fire = structs.replace(fire, blocking_key=blocking_key_of(fire))
    asked = insert_requested_run(conn, fire)
    if asked != fire.id:
        return asked
    pinned_to: list[int | None] = [None] * total
    for shard in shards:
        pinned_to[shard.shard_index] = shard.pinned_node_id
    again = shards_of(
        queued,
        job.config,
        pinned_to=pinned_to,
        now=now,
        ids=iter(run_ids[1:]),
        indices=[shard.shard_index for shard in shards],
    )
    insert_fires(conn, [_unless_gone(each, gone, now=now) for each in again])
    _note(conn, job, request, run_id=fire.id, audit_id=audit_id)
    return fire.id


def _check_place(conn: sa.Connection, job: Job) -> None:
    """Refuse a fire that would run beside others although its job forbids it (G8)."""
    policy = job.config.blocking
    if policy.strategy not in (Blocking.DISCARD_LATER, Blocking.COVER_EARLY):
        return  # parallel, or serial: then each shard stands in line by itself
    if count_live(conn, [job.id]).get(job.id, 0) >= policy.concurrency:
        raise Conflict(
            "run.job_busy", "Another run of this job has not ended yet; retry when it has."
        )


def _chosen_node(conn: sa.Connection, job: Job, request: RequestedRun, *, now: int) -> int | None:
    """The node that was asked for; None: wherever the job's routing says.

    Raises:
        InvalidInput: node.unknown, node.ended, node.lacks_handler.
    """
    if request.node_id is None and request.node is None:
        return None
    field = "node" if request.node_id is None else "node_id"
    if request.node_id is not None:
        found = get_node(conn, request.node_id)
        node = None if found is None else found.node
    else:
        named = [n for n in live_nodes(conn, job.executor_id, now=now) if n.name == request.node]
        node = max(named, key=lambda n: (n.connected_at, n.id), default=None)
    if node is None or node.executor_id != job.executor_id:
        raise InvalidInput.one(field, "node.unknown", "The job's executor has no such live node.")
    if node.state is not NodeState.LIVE:
        raise InvalidInput.one(field, "node.ended", "This node has ended.")
    if not node.offers(job.config.handler):
        raise InvalidInput.one(
            field,
            "node.lacks_handler",
            "The node “%(node)s” does not offer the handler “%(handler)s”.",
            node=node.name,
            handler=job.config.handler,
        )
    return node.id


def _requested(
    conn: sa.Connection, job: Job, request: RequestedRun, *, run_id: int, now: int
) -> Run:
    """Raises InvalidInput when the parameters are too large together, or not what is taken."""
    parameters = _parameters(job, request)
    if request.parameters is not None or request.retry_of is None:
        # Done again with what it was given, a run is told by its node what is wrong with that.
        check_run_parameters(conn, job, parameters)
    run = new_run(
        job.config,
        id=run_id,
        executor_id=job.executor_id,
        job_id=job.id,
        revision=job.revision,
        origin=request.origin,
        scheduled_at=now + request.delay_ms,
        now=now,
    )
    return structs.replace(
        run,
        request_key=request.request_key,
        requested_by=request.actor.name[:100],
        retry_of=request.retry_of,
        pinned_node_id=request.node_id,
        parameters=parameters,
        nominal_at=request.nominal_at,
        interval_start=request.interval_start,
        trace=request.trace,
    )


def _parameters(job: Job, request: RequestedRun) -> str | None:
    """What the run is given; None: the job's own, of which no run keeps a copy."""
    if request.parameters is None:
        return None if request.base == job.config.parameters else request.base
    base = job.config.parameters if request.base is None else request.base
    if why_not_portable(base.encode()) == HUGE_NUMBER:  # of a run from before it was refused
        raise InvalidInput.one("parameters", "json.huge_number", HUGE_NUMBER_REFUSED)
    merged = merged_parameters(base, request.parameters)
    if len(merged.encode()) > MAX_PARAMETERS_BYTES:
        raise InvalidInput.one(
            "parameters",
            "json.too_large",
            "Together with the job's parameters this is larger than %(limit)d KiB.",
            limit=MAX_PARAMETERS_BYTES // 1024,
        )
    return merged


def _unless_gone(shard: Run, gone: set[int], *, now: int) -> Run:
    if shard.pinned_node_id not in gone:
        return shard
    return structs.replace(node_gone(shard, now=now).after, blocking_key=None)


def _note(
    conn: sa.Connection, job: Job, request: RequestedRun, *, run_id: int, audit_id: int
) -> None:
    retry_of = request.retry_of
    action = "run.requested" if retry_of is None else "run.retried"
    detail: dict[str, object] = {"job": job.id}
    if retry_of is not None:
        detail["retry_of"] = retry_of
    detail |= request.noted
    if request.origin is Origin.TRY:
        action, detail = "run.script_tried", detail | noted(job.config)
    write_audit(
        conn,
        id=audit_id,
        actor=request.actor,
        action=action,
        executor_id=job.executor_id,
        object_id=run_id,
        detail=detail,
    )
