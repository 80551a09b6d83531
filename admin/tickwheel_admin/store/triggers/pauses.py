"""Pauses of whole executors, and of everything: instants after which no fire runs.

A pause is one value, whatever the number of triggers: planning passes over later fires while it
lasts, and a claim skips those that were planned already. Jobs and single triggers are paused by
their own rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.pools.pool import NO_SLOTS_NEEDED
from tickwheel_admin.store.database.clock import database_now, now_ms
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.run_conditions import queued_for
from tickwheel_admin.store.database.tables import executor, run, setting
from tickwheel_admin.store.self_audit.periods import keep_pause

ALL_PAUSED = "paused_at"  # name of the setting; its value is the instant as text


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Which fires do not run at present."""

    everything: int | None  # instant of the pause of everything; None: not paused
    executors: Mapping[int, int | None]  # instants of paused executors

    def of(self, executor_id: int) -> int | None:
        """Fires of the executor after this instant do not run; None: all run."""
        instants = [
            at for at in (self.everything, self.executors.get(executor_id)) if at is not None
        ]
        return min(instants, default=None)


# Made once: every look for due runs asks for them.
_EVERYTHING = sa.select(setting.c.value).where(setting.c.name == ALL_PAUSED)
_ALL_EXECUTORS = sa.select(executor.c.id, executor.c.paused_at).where(
    executor.c.paused_at.is_not(None)
)
_SOME_EXECUTORS = _ALL_EXECUTORS.where(among(executor.c.id, "ids"))


def read_pauses(conn: sa.Connection, executor_ids: Iterable[int] | None = None) -> Pauses:
    """The pauses that concern these executors; None: all of them."""
    everything = conn.execute(_EVERYTHING).scalar_one_or_none()
    if executor_ids is None:
        rows = conn.execute(_ALL_EXECUTORS)
    else:
        rows = conn.execute(_SOME_EXECUTORS, {"ids": sorted(set(executor_ids))})
    return Pauses(
        everything=None if everything is None else int(everything),
        executors={row.id: row.paused_at for row in rows},
    )


def _has_queued(which: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """One look-up in the index: mostly there are none."""
    of_executor = sa.and_(queued_for(executor.c.id), which)
    found = sa.select(run.c.id).where(of_executor).correlate(executor)
    return reading(found, run, "ix_run_to_claim").exists()


_PAUSED_SINCE = sa.select(
    database_now().label("now"),
    executor.c.paused_at,
    sa.select(setting.c.value).where(setting.c.name == ALL_PAUSED).scalar_subquery().label("all"),
    _has_queued(run.c.pool_id == NO_SLOTS_NEEDED).label("workflows"),
    _has_queued(run.c.pool_id > NO_SLOTS_NEEDED).label("pools"),
).where(executor.c.id == sa.bindparam("executor"))


class ClaimBasis(NamedTuple):
    """What every claim begins with."""

    now: int  # the database's time
    paused_at: int | None  # no fire of the executor after this instant runs; None: all do
    workflows: bool  # some are queued
    pools: bool  # some runs that are queued take slots of pools


def now_and_pause(conn: sa.Connection, executor_id: int) -> ClaimBasis:
    """What a claim for the executor must know first, by one statement."""
    row = conn.execute(_PAUSED_SINCE, {"executor": executor_id}).one_or_none()
    if row is None:  # deleted meanwhile
        return ClaimBasis(now_ms(conn), None, workflows=False, pools=False)
    everything = None if row.all is None else int(row.all)
    pauses = Pauses(everything=everything, executors={executor_id: row.paused_at})
    return ClaimBasis(
        int(row.now), pauses.of(executor_id), workflows=bool(row.workflows), pools=bool(row.pools)
    )


def pause_executor(conn: sa.Connection, executor_id: int, *, at: int | None) -> None:
    """Pause an executor from an instant on, or resume it (None)."""
    if at is None:
        paused_at = conn.execute(
            sa.select(executor.c.paused_at).where(executor.c.id == executor_id)
        ).scalar_one_or_none()
        if paused_at is not None:
            keep_pause(conn, executor_id, paused_at=paused_at, resumed_at=now_ms(conn))
    conn.execute(sa.update(executor).where(executor.c.id == executor_id).values(paused_at=at))


def pause_everything(conn: sa.Connection, *, at: int | None) -> None:
    """Pause all executors from an instant on, unless they are paused; or end that pause (None).

    Of two pauses at once the first one counts: the other one's insert fails, and its transaction is
    repeated.
    """
    if at is None:
        paused_at = conn.execute(_EVERYTHING).scalar_one_or_none()
        if paused_at is not None:
            keep_pause(conn, 0, paused_at=int(paused_at), resumed_at=now_ms(conn))
        conn.execute(sa.delete(setting).where(setting.c.name == ALL_PAUSED))
    else:
        conn.execute(sa.insert(setting).values(name=ALL_PAUSED, value=str(at)))
