"""A script is tried before it is saved: one run, on one node, that nothing follows.

Its configuration is a revision that no job ever has: the number is negative, so that history and
editing never meet it. So everything that a run reads of its revision is there, and says that this
one is not tried again, has no children, no state and no line to stand in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.input.job import parse_parameters
from tickwheel_admin.domain.input.script import parse_script
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.runs.blocking import BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.runs.script import HANDLER, Script
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import QUEUED, RUNS, Events
from tickwheel_admin.services.handlers.scripts import check_script
from tickwheel_admin.services.jobs.edits import lock_job_for
from tickwheel_admin.services.runs.requests import RequestedRun, check_request_key, request_run
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.revisions import add_try
from tickwheel_admin.store.runs.inserts import find_request
from tickwheel_admin.store.system.audit import find_audit


class ScriptTries:
    """Use case of trying a script."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events

    async def start(
        self,
        actor: Actor,
        job_id: int,
        raw: Mapping[str, Any],
        *,
        node_id: int,
        parameters: str | None = None,
        request_key: str | None = None,
    ) -> int:
        """Run a script of the job once, as it is typed; returns the run's id.

        Args:
            raw: the script, in the form of the API.
            node_id: where it runs, and nowhere else.
            parameters: JSON object, instead of the job's; None: the job's own.
            request_key: the same key gives the same run, however often it is sent.

        Raises:
            InvalidInput: of the script's fields; the node cannot run it.
            NotAllowed: without the permission to edit scripts.
            Conflict: script.no_job, when the job runs something else.
        """
        check_request_key(request_key)
        script = parse_script(raw)
        if parameters is not None:
            parameters = parse_parameters(parameters)
        audit_id = await self._ids.take("audit")
        run_id = await self._ids.take("run")
        try_id = await self._ids.take("script_try")
        request = RequestedRun(
            actor=actor, origin=Origin.TRY, request_key=request_key, node_id=node_id
        )

        def start(conn: sa.Connection) -> int:
            if find_audit(conn, audit_id) is not None:
                return run_id
            job = lock_job_for(conn, actor, job_id, Permission.DEVELOP)
            if job.config.handler != HANDLER:
                raise Conflict("script.no_job", "This job runs no script.")
            if request_key is not None:
                standing = find_request(conn, job.id, request_key)
                if standing is not None:
                    return standing
            config = tried(job.config, script, parameters)
            current = job.config.script
            is_stored = current is not None and current.sha256 == script.sha256
            check_script(conn, actor, job.executor_id, config, is_stored=is_stored)
            number = add_try(conn, job.id, config, try_id=try_id, now=now_ms(conn), by=actor.name)
            as_tried = replace(job, revision=number, config=config)
            return request_run(conn, as_tried, request, run_ids=[run_id], audit_id=audit_id)

        asked = await self._store.run(start)
        self._events.publish(QUEUED)
        self._events.publish(RUNS)
        return asked


def tried(config: JobConfig, script: Script, parameters: str | None) -> JobConfig:
    """What a try of the script runs as, for a job that says this."""
    return replace(
        config,
        script=script,
        parameters=config.parameters if parameters is None else parameters,
        routing=RoutingPolicy(),
        blocking=BlockingPolicy(),
        retry=RetryPolicy(),
        start_within_ms=None,
        children=(),
        triggers=(),
    )
