"""Does the runs of failure groups again, wave by wave, when the wave before has succeeded.

Every admin does it. What a wave is made of is read without a lock, then written by whoever is
first; the others find that the row has changed, and leave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.failures.canary import CanaryReason, CanaryRetry, CanaryState
from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.domain.users.user import Actor, Permission, Role
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.events.events import ALARMS, QUEUED, RUNS, Events
from tickwheel_admin.services.runs.batches import BatchEdit, retry_runs
from tickwheel_admin.services.runs.edits import Retry
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.failures.canaries import (
    MAX_OPEN,
    lock_unchanged,
    next_runs,
    open_canaries,
    states_of_runs,
    write_canary,
)
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.users.identity import actor_of_user
from tickwheel_admin.store.users.users import get_user

log = structlog.get_logger(__name__)


class CanaryRetrier(Loop):
    """One step of each canary retry per pass, each a transaction of its own."""

    interval_seconds = 1.0

    def __init__(self, store: Store, ids: Ids, events: Events, *, configs: JobConfigs) -> None:
        super().__init__()
        self._store = store
        self._ids = ids
        self._events = events
        self._configs = configs
        self._after = 0  # the id behind which the next pass begins

    async def run_once(self) -> bool:
        found = await self._store.read(open_canaries, after=self._after)
        self._after = found[-1].id if len(found) == MAX_OPEN else 0
        more = self._after > 0
        for each in found:
            more = await self._step(each) or more
        return more

    async def _step(self, canary: CanaryRetry) -> bool:
        """Whether it may go on at once."""
        seen, runs = await self._store.read(_look, canary)
        if seen == canary and not runs and canary.open_runs:
            return False  # the wave goes on
        audit_ids = await self._ids.take_many("audit", len(runs)) if runs else []
        after = await self._ids.run_with_ids(
            "run",
            lambda run_ids: self._store.run(
                self._write,
                canary,
                runs,
                audit_ids=audit_ids,
                run_ids=run_ids,
            ),
        )
        if after is None:  # another admin was faster, or somebody stopped it
            return False
        for topic in (ALARMS, RUNS, *([QUEUED] if after.open_runs else [])):
            self._events.publish(topic)
        if not after.is_running:
            log.info(
                "canary_retry.ended",
                failure_group_id=after.group_id,
                state=after.state.value,
                reason=after.reason,
                retried=after.retried,
            )
        return after.is_running and not after.open_runs

    def _write(
        self,
        conn: sa.Connection,
        canary: CanaryRetry,
        runs: Sequence[tuple[int, int]],
        *,
        audit_ids: Sequence[int],
        run_ids: Sequence[int],
    ) -> CanaryRetry | None:
        if not lock_unchanged(conn, canary):
            return None
        now = now_ms(conn)
        after = _seen(conn, canary)
        if not after.open_runs:
            after = self._next(conn, after, runs, audit_ids=audit_ids, run_ids=run_ids, now=now)
        write_canary(conn, after)
        return after

    def _next(
        self,
        conn: sa.Connection,
        canary: CanaryRetry,
        runs: Sequence[tuple[int, int]],
        *,
        audit_ids: Sequence[int],
        run_ids: Sequence[int],
        now: int,
    ) -> CanaryRetry:
        """Its wave has ended: the next one, if it may go on."""
        if canary.failed:
            return canary.ended(CanaryState.STOPPED, now=now, reason=CanaryReason.FAILED)
        if not runs:
            return canary.ended(CanaryState.DONE, now=now)
        actor = _actor(conn, canary)
        if not actor.may(Permission.OPERATE, canary.executor_id):
            return canary.ended(CanaryState.STOPPED, now=now, reason=CanaryReason.NOT_ALLOWED)
        wanted = [run_id for _, run_id in runs]
        batch = BatchEdit(
            actor=actor,
            runs=wanted,
            audit_ids=audit_ids,
            configs=self._configs,
            run_ids=run_ids,
        )
        outcomes = retry_runs(
            conn,
            batch,
            retry=Retry(unless_retried=True),
            keys={run_id: canary.request_key(run_id) for run_id in wanted},
        )
        new = tuple(sorted(each for each in outcomes.values() if isinstance(each, int)))
        before_at, before_id = runs[-1]
        return replace(
            canary,
            before_at=before_at,
            before_id=before_id,
            # Of a wave that came to nothing, the next one is no larger.
            wave=len(new) or canary.wave,
            open_runs=new,
            retried=canary.retried + len(new),
            left_out=canary.left_out + len(wanted) - len(new),
        )


def _look(
    conn: sa.Connection, canary: CanaryRetry
) -> tuple[CanaryRetry, Sequence[tuple[int, int]]]:
    """What became of the wave; and when it has succeeded, the runs of the next one."""
    seen = _seen(conn, canary)
    if seen.open_runs or seen.failed:
        return seen, ()
    return seen, next_runs(conn, canary, limit=canary.next_wave)


def _seen(conn: sa.Connection, canary: CanaryRetry) -> CanaryRetry:
    if not canary.open_runs:
        return canary
    states = states_of_runs(conn, canary.open_runs)
    still_open = [n for n in canary.open_runs if n in states and states[n] not in FINAL]
    ended = [states.get(n) for n in canary.open_runs if n not in still_open]
    return canary.seen(ended, still_open)


def _actor(conn: sa.Connection, canary: CanaryRetry) -> Actor:
    """Whoever began it, as an operator of the executor at most: what they may do now counts."""
    if not canary.user_id:  # the command line of the server
        grants = {canary.executor_id: Role.OPERATOR}
        return Actor(user_id=0, name=canary.started_by, grants=grants)
    user = get_user(conn, canary.user_id)
    if user is None or user.disabled:
        return Actor(user_id=canary.user_id, name=canary.started_by, grants={})
    actor = actor_of_user(conn, user)
    return actor.narrowed(Role.OPERATOR, frozenset({canary.executor_id}))
