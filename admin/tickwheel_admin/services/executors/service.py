"""Executors: the services that run jobs, their tokens and their nodes."""

from __future__ import annotations

import builtins
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotFound
from tickwheel_admin.domain.executors.executor import Protocol, check_executor
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import (
    CANCEL,
    JOBS,
    NODES,
    QUEUED,
    RUNS,
    TRIGGERS,
    Events,
)
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.executors.deletion import (
    JOBS_PER_STEP,
    Deletion,
    check_has_no_jobs,
    delete_empty,
    delete_some_jobs,
    end_some_runs,
)
from tickwheel_admin.services.executors.lists import ExecutorDetail as ExecutorDetail
from tickwheel_admin.services.executors.lists import ExecutorItem as ExecutorItem
from tickwheel_admin.services.executors.lists import ExecutorName as ExecutorName
from tickwheel_admin.services.executors.lists import NodeView as NodeView
from tickwheel_admin.services.executors.lists import read_detail, read_list, read_names
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors import executors as store_executors
from tickwheel_admin.store.executors.executors import StoredExecutor
from tickwheel_admin.store.executors.tokens import replace_token, revoke_old_token
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.triggers.pauses import pause_executor
from tickwheel_admin.store.xxl_job.executors import StoredXxlAddress as StoredXxlAddress

T = TypeVar("T")

MAX_OVERLAP_SECONDS = 30 * 86_400
TOKEN_PREFIX = "twx_"  # noqa: S105 - recognised by people and secret scanners


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExecutor:
    """What its owner is told once; only the token's hash is kept."""

    id: int
    name: str
    token: str


class Executors:
    """Use cases of executors."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._audited = AuditedTransactions(store, ids, events)
        self._configs = JobConfigs(keep=1_000)

    async def get(self, actor: Actor, executor_id: int) -> ExecutorDetail:
        """One executor with its nodes."""
        actor.require(Permission.VIEW, executor_id)
        return await self._store.read(read_detail, executor_id)

    async def create(self, actor: Actor, *, name: str, description: str = "") -> NewExecutor:
        """Add an executor.

        Raises:
            InvalidInput: name or description break a rule.
            Conflict: executor.name_taken.
        """
        actor.require(Permission.ADMINISTER)
        name, description = name.strip(), description.replace("\r\n", "\n").strip()
        check_executor(name, description)
        token, token_hash = _new_token()
        executor_id = await self._ids.take("executor")

        def create(conn: sa.Connection, entry: AuditEntry) -> None:
            check_name_is_free(conn, name)
            store_executors.add_executor(
                conn,
                executor_id=executor_id,
                name=name,
                description=description,
                token_hash=token_hash,
                now=now_ms(conn),
            )
            _write(entry, "executor.created", executor_id, name)

        await self._audited.run(actor, create, NODES)
        return NewExecutor(id=executor_id, name=name, token=token)

    async def rotate_token(
        self, actor: Actor, executor_id: int, *, overlap_seconds: int = 0
    ) -> NewExecutor:
        """Give the executor a new token.

        Args:
            overlap_seconds: how long the one before it works as well, 0 to 30 days; nodes that
                came with it are sent away within seconds of its end. With 0 that is now.

        Raises:
            InvalidInput: on "overlap_seconds".
            Conflict: executor.other_protocol.
        """
        actor.require(Permission.ADMINISTER, executor_id)
        if not 0 <= overlap_seconds <= MAX_OVERLAP_SECONDS:
            raise InvalidInput.one(
                "overlap_seconds",
                "out_of_range",
                "This must lie between %(low)s and %(high)s.",
                low="0",
                high=f"{MAX_OVERLAP_SECONDS:,}",
            )
        token, token_hash = _new_token()

        def rotate(conn: sa.Connection) -> dict[str, object]:
            until = now_ms(conn) + overlap_seconds * 1000 if overlap_seconds else None
            replace_token(conn, executor_id, token_hash=token_hash, old_until=until)
            return {"overlap_seconds": overlap_seconds}

        name = await self._change_token(actor, executor_id, "executor.token_rotated", rotate)
        return NewExecutor(id=executor_id, name=name, token=token)

    async def revoke_old_token(self, actor: Actor, executor_id: int) -> None:
        """End the overlap of a rotation: from now on only the current token works."""
        actor.require(Permission.ADMINISTER, executor_id)

        def revoke(conn: sa.Connection) -> dict[str, object]:
            revoke_old_token(conn, executor_id)
            return {}

        await self._change_token(actor, executor_id, "executor.old_token_revoked", revoke)

    async def _change_token(
        self,
        actor: Actor,
        executor_id: int,
        action: str,
        work: Callable[[sa.Connection], dict[str, object]],
    ) -> str:
        """Do the work under the executor's lock and note it, once; returns the executor's name."""

        def change(conn: sa.Connection, entry: AuditEntry) -> str:
            found = _get(conn, executor_id, lock=True)
            _check_has_own_token(found)
            _write(entry, action, executor_id, found.name, **work(conn))
            return found.name

        return await self._audited.run(
            actor, change, NODES, repeated=lambda noted: str(noted.detail["name"])
        )

    async def delete(self, actor: Actor, executor_id: int, *, with_jobs: bool = False) -> None:
        """Remove an executor; its runs stay in the ledger.

        Runs that still wait are cancelled. Live ones are asked to stop: their nodes are sent away,
        so that no result could come. Many jobs take many steps: should they be interrupted,
        deleting again goes on with them.

        Args:
            with_jobs: delete its jobs as well; else an executor that has any is left as it is.

        Raises:
            Conflict: executor.has_jobs.
        """
        actor.require(Permission.ADMINISTER, executor_id)
        deletion = Deletion(
            actor=actor, executor_id=executor_id, configs=self._configs, audit_ids=()
        )
        if not with_jobs:
            await self._store.read(check_has_no_jobs, executor_id)
        jobs = 0
        while True:
            while with_jobs and (step := await self._step(delete_some_jobs, deletion)) is not None:
                jobs += step
            while await self._step(end_some_runs, deletion):
                pass

            def delete(conn: sa.Connection, step: Deletion, *, jobs: int = jobs) -> bool:
                return delete_empty(conn, step, jobs_deleted=jobs, with_jobs=with_jobs)

            if await self._step(delete, deletion):
                break
        for topic in (NODES, JOBS, TRIGGERS, RUNS, QUEUED, CANCEL):
            self._events.publish(topic)

    async def _step(self, work: Callable[[sa.Connection, Deletion], T], deletion: Deletion) -> T:
        """One step of a deletion, with ids for what it notes and for runs that it has to write."""
        audit_ids = await self._ids.take_many("audit", JOBS_PER_STEP)
        step = replace(deletion, audit_ids=audit_ids)
        return await self._ids.run_with_ids(
            "run", lambda run_ids: self._store.run(work, replace(step, run_ids=run_ids))
        )

    async def pause(self, actor: Actor, executor_id: int) -> None:
        """Let none of its triggers fire from now on; runs that are due or live go on.

        Runs by hand, through the API and of child jobs are not held back. Pausing twice changes
        nothing.
        """
        await self._set_paused(actor, executor_id, paused=True)

    async def resume(self, actor: Actor, executor_id: int) -> None:
        """Let its triggers fire again, from now on: what the pause held back is skipped."""
        await self._set_paused(actor, executor_id, paused=False)

    async def _set_paused(self, actor: Actor, executor_id: int, *, paused: bool) -> None:
        actor.require(Permission.OPERATE, executor_id)

        def change(conn: sa.Connection, entry: AuditEntry) -> None:
            found = _get(conn, executor_id, lock=True)
            if (found.paused_at is not None) == paused:
                return
            pause_executor(conn, executor_id, at=now_ms(conn) if paused else None)
            action = "executor.paused" if paused else "executor.resumed"
            _write(entry, action, executor_id, found.name)

        await self._audited.run(actor, change, NODES, TRIGGERS, QUEUED)

    async def set_scripts(self, actor: Actor, executor_id: int, *, allowed: bool) -> None:
        """Allow scripts on its nodes, or forbid them altogether.

        While they are forbidden no job gets a new script, and runs of jobs that have one wait.
        """
        actor.require(Permission.ADMINISTER, executor_id)

        def change(conn: sa.Connection, entry: AuditEntry) -> None:
            found = _get(conn, executor_id, lock=True)
            if found.scripts == allowed:
                return
            store_executors.set_scripts(conn, executor_id, allowed=allowed)
            action = "executor.scripts_allowed" if allowed else "executor.scripts_forbidden"
            _write(entry, action, executor_id, found.name)

        await self._audited.run(actor, change, NODES, QUEUED)

    async def names(self, actor: Actor) -> builtins.list[ExecutorName]:
        """Every executor that the caller may see, by name; at most 1,000. For choices and filters:
        nothing is counted."""
        return await self._store.read(read_names, actor.scope(Permission.VIEW))

    async def list(self, actor: Actor) -> builtins.list[ExecutorItem]:
        """Every executor that the caller may see, by name; at most 1,000."""
        return await self._store.read(read_list, actor.scope(Permission.VIEW))


def _get(conn: sa.Connection, executor_id: int, *, lock: bool = False) -> StoredExecutor:
    found = store_executors.get_executor(conn, executor_id, lock=lock)
    if found is None:
        raise NotFound("not_found", "There is nothing here, or you may not see it.")
    return found


def _new_token() -> tuple[str, str]:
    """A token of 256 random bits and the hash that is stored."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).hexdigest()


def check_name_is_free(conn: sa.Connection, name: str) -> None:
    """Raises Conflict executor.name_taken."""
    if store_executors.executor_name_is_taken(conn, name):
        raise Conflict(
            "executor.name_taken", "There is already an executor named “%(name)s”.", name=name
        )


def _check_has_own_token(found: StoredExecutor) -> None:
    """Refuse what concerns the token with which nodes connect."""
    if found.protocol is not Protocol.TICKWHEEL:
        raise Conflict(
            "executor.other_protocol",
            "The nodes of “%(name)s” do not connect with a token of Tickwheel; admins call them"
            " with the access token that you entered. Change that one instead.",
            name=found.name,
        )


def _write(entry: AuditEntry, action: str, executor_id: int, name: str, **more: object) -> None:
    entry.write(action, executor_id, executor_id=executor_id, name=name, **more)
