"""Why a queued run does not start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.run import Run, RunState
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.nodes import live_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What a queued run waits for."""

    code: str  # stable: not_due, retry, no_live_node, no_handler, draining, no_free_slot, starting
    template: str  # English message id
    params: dict[str, Any] = field(default_factory=dict)  # instants are UTC epoch ms


def why_it_waits(conn: sa.Connection, run: Run, config: JobConfig) -> Waiting | None:
    """The first reason that holds; None for a run that is not queued."""
    if run.state is not RunState.QUEUED:
        return None
    now = now_ms(conn)
    if run.due_at > now and run.scheduled_at > now:
        return Waiting(code="not_due", template="It is not due yet.", params={"due_at": run.due_at})
    if run.due_at > now and run.tries > 0:
        return Waiting(
            code="retry",
            template="It waits for its next try, number %(number)d of %(of)d.",
            params={"due_at": run.due_at, "number": run.tries + 1, "of": config.retry.retries + 1},
        )
    return _for_want_of_a_node(conn, run, config, now=now)


def _for_want_of_a_node(conn: sa.Connection, run: Run, config: JobConfig, *, now: int) -> Waiting:
    nodes = live_nodes(conn, run.executor_id, now=now)
    if not nodes:
        return Waiting(code="no_live_node", template="No node of its executor is connected.")
    offering = [node for node in nodes if config.handler in node.handlers]
    if not offering:
        return Waiting(
            code="no_handler",
            template="None of the %(nodes)d live nodes offers the handler “%(handler)s”.",
            params={"nodes": len(nodes), "handler": config.handler},
        )
    ready = [node for node in offering if not node.draining]
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
