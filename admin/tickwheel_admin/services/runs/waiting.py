"""Why queued runs do not start: for one run, or for a page of a list in a few queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import Node
from tickwheel_admin.domain.executors.reports import REFUSED_HANDLER
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.jobs.secret_references import secrets_of_run
from tickwheel_admin.domain.pools.pool import slots_taken
from tickwheel_admin.domain.routing.policy import RoutingPolicy, admits
from tickwheel_admin.domain.routing.strategy import Memory, NodeNames, Split
from tickwheel_admin.domain.runs.measures import could_start_at
from tickwheel_admin.domain.runs.run import (
    NO_SCRIPTS,
    NO_SECRET,
    PUT_OFF,
    UNREADABLE_SECRET,
    Run,
    RunState,
)
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.executors.nodes import live_nodes_of
from tickwheel_admin.store.executors.secrets import secret_names_of
from tickwheel_admin.store.jobs.routing_memory import busy_nodes
from tickwheel_admin.store.pools.holders import PoolNow, pools_now
from tickwheel_admin.store.runs.lanes import live_before
from tickwheel_admin.store.triggers.pauses import Pauses, read_pauses


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What a queued run waits for."""

    # Stable: paused, not_due, retry, blocked, pinned_node, no_live_node, no_handler,
    # no_matching_node, scripts_forbidden, cordoned, draining, job_busy_everywhere, no_free_slot,
    # secret, pool, starting.
    code: str
    template: str  # English message id
    params: dict[str, Any] = field(default_factory=dict)  # instants are UTC epoch ms
    runs: tuple[int, ...] = ()  # the live runs of its executor that it waits for
    start_by: int | None = None  # it is skipped when it has not started by then
    since: int | None = None  # it could have started then; None: it waits for its instant only
    executor: str = ""  # name


def why_it_waits(conn: sa.Connection, run: Run, config: JobConfig) -> Waiting | None:
    """The first reason that holds; None for a run that is not queued."""
    return why_they_wait(conn, [(run, config)]).get(run.id)


def why_they_wait(conn: sa.Connection, runs: Iterable[tuple[Run, JobConfig]]) -> dict[int, Waiting]:
    """For each queued run the first reason that holds, by run id; others are left out."""
    queued = [(run, config) for run, config in runs if run.state is RunState.QUEUED]
    if not queued:
        return {}
    facts = _read_facts(conn, queued)
    return {run.id: _why(run, config, facts) for run, config in queued}


# --- what is known -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What the reasons are read off."""

    now: int
    pauses: Pauses
    executors: Mapping[int, str]  # names
    before: Mapping[int, Sequence[int]]  # parked run -> live runs that it waits for
    nodes: Mapping[int, Sequence[Node]]  # executor -> its live nodes, by name
    busy: Mapping[int, set[int]]  # job that avoids busy nodes -> those
    secrets: Mapping[int, set[str]]  # executor of a run that lacks one -> the names that it has
    pools: Mapping[int, PoolNow]  # by id


def _read_facts(conn: sa.Connection, queued: Sequence[tuple[Run, JobConfig]]) -> _Facts:
    now = now_ms(conn)
    executor_ids = {run.executor_id for run, _ in queued}
    due = [
        (run, config)
        for run, config in queued
        if not run.is_parked and _for_its_instant(run, config, now=now) is None
    ]
    avoiding: defaultdict[int, set[int]] = defaultdict(set)
    for run, config in due:
        if config.routing.record.memory is Memory.BUSY:
            avoiding[run.executor_id].add(run.job_id)
    lacking = {run.executor_id for run, _ in due if run.reason in (NO_SECRET, UNREADABLE_SECRET)}
    busy: dict[int, set[int]] = {}
    for executor_id, job_ids in avoiding.items():
        busy |= busy_nodes(conn, job_ids, executor_id=executor_id)
    return _Facts(
        now=now,
        pauses=read_pauses(conn, executor_ids),
        executors=executor_names(conn, executor_ids),
        before=live_before(
            conn,
            [run for run, _ in queued if run.is_parked],
            broadcasts={
                run.job_id
                for run, config in queued
                if config.routing.record.split is Split.PER_NODE
            },
        ),
        nodes=live_nodes_of(conn, {run.executor_id for run, _ in due}, now=now),
        busy=busy,
        secrets=secret_names_of(conn, lacking) if lacking else {},
        pools=pools_now(conn, {run.pool_id for run, _ in due if run.pool_id}),
    )


# --- what follows from it ------------------------------------------------------------------------


def _why(run: Run, config: JobConfig, facts: _Facts) -> Waiting:
    why = (
        _for_a_pause(run, facts)
        or _for_its_turn(run, facts)
        or _for_its_instant(run, config, now=facts.now)
        or _for_want_of_a_secret(run, config, facts)
        or _for_want_of_a_node(run, config, facts)
    )
    if why.code == "starting":  # it has a node
        why = _for_a_pool(run, config, facts) or why
    return replace(
        why,
        start_by=run.deadline_at if run.tries == 0 else None,
        since=None if why.code in ("not_due", "retry") else _could_start_at(run, facts),
        executor=facts.executors.get(run.executor_id, ""),
    )


def _could_start_at(run: Run, facts: _Facts) -> int:
    """When nothing but what it waits for kept it; a run that is put off is due again and again."""
    if run.tries > 0:
        return min(run.due_at, facts.now)
    since = could_start_at(
        scheduled_at=run.scheduled_at, jitter_ms=run.jitter_ms, created_at=run.created_at
    )
    return min(since, facts.now)


def _for_a_pause(run: Run, facts: _Facts) -> Waiting | None:
    if run.trigger_id is None or run.fire_id is not None or run.tries > 0:
        return None  # somebody asked for it, or it has begun: no pause holds it back
    paused_at = facts.pauses.of(run.executor_id)
    if paused_at is None or run.scheduled_at <= paused_at:
        return None
    return Waiting(
        code="paused",
        template="Its executor, or everything, is paused; it will be skipped.",
        params={"paused_at": paused_at},
    )


def _for_its_turn(run: Run, facts: _Facts) -> Waiting | None:
    if not run.is_parked:
        return None
    live = tuple(facts.before.get(run.id, ()))
    if len(live) == 1:
        return Waiting(
            code="blocked",
            template="It waits for run %(run)d.",
            params={"run": live[0]},
            runs=live,
        )
    if live:
        return Waiting(
            code="blocked",
            template="It waits until one of %(count)d earlier runs has ended.",
            params={"count": len(live)},
            runs=live,
        )
    return Waiting(code="blocked", template="It waits for its turn.")


def _for_its_instant(run: Run, config: JobConfig, *, now: int) -> Waiting | None:
    if run.due_at <= now or run.reason in PUT_OFF:
        return None
    if run.scheduled_at + (run.jitter_ms or 0) > now:
        return Waiting(code="not_due", template="It is not due yet.", params={"due_at": run.due_at})
    if run.tries > 0:
        return Waiting(
            code="retry",
            template="It waits for its next try, number %(number)d of %(of)d.",
            params={"due_at": run.due_at, "number": run.tries + 1, "of": config.retry.retries + 1},
        )
    return None


def _for_want_of_a_secret(run: Run, config: JobConfig, facts: _Facts) -> Waiting | None:
    needed = secrets_of_run(config, run.parameters)
    if run.reason == UNREADABLE_SECRET:
        return Waiting(
            code="secret",
            template="It needs the secret %(names)s, which was encrypted with a key that"
            " TICKWHEEL_SECRET_KEY does not have.",
            params={"names": ", ".join(sorted(needed))},
        )
    missing = needed - facts.secrets.get(run.executor_id, needed)
    if run.reason != NO_SECRET or not missing:
        return None
    return Waiting(
        code="secret",
        template="It waits for the secret %(names)s, which its executor does not have.",
        params={"names": ", ".join(sorted(missing))},
    )


def _for_a_pool(run: Run, config: JobConfig, facts: _Facts) -> Waiting | None:
    now = facts.pools.get(run.pool_id or 0)
    if now is None or config.pool is None:
        return None
    params = {"name": now.name, "pool": now.pool_id, "used": now.in_use, "slots": now.slots}
    if not now.slots:
        return Waiting(
            code="pool",
            template="It waits for a slot of the pool %(name)s, which is closed.",
            params=params,
        )
    if now.in_use + slots_taken(config.pool.slots, now.slots) <= now.slots:
        return None
    return Waiting(
        code="pool",
        template="It waits for a slot of the pool %(name)s: %(used)d of %(slots)d in use.",
        params=params,
        runs=tuple(id_ for id_, executor in now.holders if executor == run.executor_id),
    )


def _for_want_of_a_node(run: Run, config: JobConfig, facts: _Facts) -> Waiting:
    if config.script is not None and run.reason == NO_SCRIPTS:
        return Waiting(
            code="scripts_forbidden", template="Its executor forbids scripts at the moment."
        )
    nodes = facts.nodes.get(run.executor_id, ())
    if run.pinned_node_id is not None:
        return _for_its_node(run.pinned_node_id, nodes)
    if run.is_workflow:  # its steps need what their own jobs say
        return Waiting(code="starting", template="It is about to start.")
    if not nodes:
        return Waiting(code="no_live_node", template="No node of its executor is connected.")
    offering = [node for node in nodes if node.offers(config.handler)]
    if not offering:
        return _for_want_of_the_handler(config, nodes)
    if run.reason == REFUSED_HANDLER:
        # Nodes that offer any handler: which they have is known when they are asked.
        return _for_want_of_the_handler(config, nodes)
    policy = config.routing
    matching = [node for node in offering if admits(policy, name=node.name, labels=node.labels)]
    if not matching:
        return _for_want_of_a_match(policy, offering)
    ready = [node for node in matching if node.takes_runs]
    if not ready and any(node.cordoned for node in matching):
        return Waiting(
            code="cordoned",
            template="Every node that it may run on is cordoned or shutting down.",
        )
    if not ready:
        return Waiting(code="draining", template="Every node that it may run on is shutting down.")
    busy = facts.busy.get(run.job_id, set())
    if all(node.id in busy for node in ready):
        return Waiting(
            code="job_busy_everywhere",
            template="Each node that it may run on runs this job already: %(nodes)d in all.",
            params={"nodes": len(ready)},
        )
    if all(node.in_use >= node.slots for node in ready if node.id not in busy):
        return Waiting(
            code="no_free_slot",
            template="All %(slots)d slots are taken.",
            params={"slots": sum(node.slots for node in ready)},
        )
    return Waiting(code="starting", template="It is about to start.")


def _for_want_of_the_handler(config: JobConfig, nodes: Sequence[Node]) -> Waiting:
    return Waiting(
        code="no_handler",
        template="None of the %(nodes)d live nodes offers the handler “%(handler)s”.",
        params={"nodes": len(nodes), "handler": config.handler},
    )


def _for_want_of_a_match(policy: RoutingPolicy, offering: Sequence[Node]) -> Waiting:
    params: dict[str, Any] = {"nodes": len(offering), "selector": policy.selector}
    if policy.record.names is not NodeNames.REQUIRED or not policy.nodes:
        return Waiting(
            code="no_matching_node",
            template="None of the %(nodes)d live nodes that offer its handler has the labels"
            " “%(selector)s”.",
            params=params,
        )
    params["names"] = ", ".join(policy.nodes)
    if policy.selector:
        return Waiting(
            code="no_matching_node",
            template="None of the %(nodes)d live nodes that offer its handler is named %(names)s"
            " and has the labels “%(selector)s”.",
            params=params,
        )
    return Waiting(
        code="no_matching_node",
        template="None of the %(nodes)d live nodes that offer its handler is named %(names)s.",
        params=params,
    )


def _for_its_node(node_id: int, nodes: Sequence[Node]) -> Waiting:
    """A shard of a broadcast, or a run for which a person chose a node, runs there only."""
    node = next((node for node in nodes if node.id == node_id), None)
    if node is None:
        return Waiting(
            code="pinned_node",
            template="The node on which alone it may run is not connected.",
        )
    if not node.takes_runs:
        return Waiting(
            code="pinned_node",
            template="The node “%(node)s”, on which alone it may run, takes no new runs.",
            params={"node": node.name},
        )
    if node.in_use >= node.slots:
        return Waiting(
            code="pinned_node",
            template="All slots of the node “%(node)s”, on which alone it may run, are taken.",
            params={"node": node.name},
        )
    return Waiting(code="starting", template="It is about to start.")
