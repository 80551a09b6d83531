"""Why a queued run does not start."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.node import Node
from tickwheel_admin.domain.run import Run, RunState
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.lanes import live_in_lane
from tickwheel_admin.store.nodes import live_nodes
from tickwheel_admin.store.pauses import read_pauses


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What a queued run waits for."""

    # Stable: paused, not_due, retry, blocked, pinned_node, no_live_node, no_handler, cordoned,
    # draining, no_free_slot, starting.
    code: str
    template: str  # English message id
    params: dict[str, Any] = field(default_factory=dict)  # instants are UTC epoch ms
    runs: tuple[int, ...] = ()  # the live runs that it waits for
    start_by: int | None = None  # it is skipped when it has not started by then


def why_it_waits(conn: sa.Connection, run: Run, config: JobConfig) -> Waiting | None:
    """The first reason that holds; None for a run that is not queued."""
    if run.state is not RunState.QUEUED:
        return None
    now = now_ms(conn)
    why = (
        _for_a_pause(conn, run)
        or _for_its_turn(conn, run)
        or _for_its_instant(run, config, now=now)
        or _for_want_of_a_node(conn, run, config, now=now)
    )
    return replace(why, start_by=run.deadline_at if run.tries == 0 else None)


def _for_a_pause(conn: sa.Connection, run: Run) -> Waiting | None:
    if run.trigger_id is None or run.fire_id is not None or run.tries > 0:
        return None  # somebody asked for it, or it has begun: no pause holds it back
    paused_at = read_pauses(conn, [run.executor_id]).of(run.executor_id)
    if paused_at is None or run.scheduled_at <= paused_at:
        return None
    return Waiting(
        code="paused",
        template="Its executor, or everything, is paused; it will be skipped.",
        params={"paused_at": paused_at},
    )


def _for_its_turn(conn: sa.Connection, run: Run) -> Waiting | None:
    if not run.is_parked:
        return None
    live = tuple(live_in_lane(conn, run))
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
    if run.due_at <= now:
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


def _for_want_of_a_node(conn: sa.Connection, run: Run, config: JobConfig, *, now: int) -> Waiting:
    nodes = live_nodes(conn, run.executor_id, now=now)
    if run.pinned_node_id is not None:
        return _for_its_node(run.pinned_node_id, nodes)
    if not nodes:
        return Waiting(code="no_live_node", template="No node of its executor is connected.")
    offering = [node for node in nodes if config.handler in node.handlers]
    if not offering:
        return Waiting(
            code="no_handler",
            template="None of the %(nodes)d live nodes offers the handler “%(handler)s”.",
            params={"nodes": len(nodes), "handler": config.handler},
        )
    ready = [node for node in offering if node.takes_runs]
    if not ready and any(node.cordoned for node in offering):
        return Waiting(
            code="cordoned",
            template="Every node that offers its handler is cordoned or shutting down.",
        )
    if not ready:
        return Waiting(
            code="draining", template="Every node that offers its handler is shutting down."
        )
    if all(node.in_use >= node.slots for node in ready):
        return Waiting(
            code="no_free_slot",
            template="All %(slots)d slots are taken.",
            params={"slots": sum(node.slots for node in ready)},
        )
    return Waiting(code="starting", template="It is about to start.")


def _for_its_node(node_id: int, nodes: list[Node]) -> Waiting:
    """A shard of a broadcast runs on its own node only."""
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
