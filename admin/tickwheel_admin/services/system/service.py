"""The installation as a whole: its admins, and the pause of everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.admin_status import AdminStatus, status_from_json
from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import JOBS, QUEUED, TRIGGERS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.database.server_facts import ServerFacts, read_server_facts
from tickwheel_admin.store.overview.overview import list_admins
from tickwheel_admin.store.triggers.pauses import pause_everything, read_pauses

MAX_ADMINS = 200

_LOOP_LABELS: Mapping[str, Word] = {
    "planner": Word("Planning fires"),
    "backfiller": Word("Running fires of the past"),
    "canaryretrier": Word("Retrying failures"),
    "dispatcher": Word("Sending runs"),
    "recorder": Word("Recording results"),
    "sweeper": Word("Sweeping up"),
    "leases": Word("Renewing leases"),
    "refresher": Word("Following calendars"),
    "cleaner": Word("Cleaning"),
    "rollup": Word("Counting runs"),
    "alarmevaluator": Word("Evaluating alarms"),
    "alarmdelivery": Word("Delivering alarms"),
    "selfaudit": Word("Self-audit"),
    "windowplacer": Word("Placing triggers in windows"),
    "deadlineforecaster": Word("Forecasting deadlines"),
    "coveragewatcher": Word("Watching coverage"),
    "herald": Word("Telling other admins"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminItem:
    """An admin."""

    id: int
    name: str
    version: str
    started_at: int
    uptime_ms: int
    lease_expires_at: int
    live: bool
    status: AdminStatus  # as it told with its last lease renewal


class System:
    """Use cases of the whole installation."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._audited = AuditedTransactions(store, ids, events)

    async def admins(self, actor: Actor) -> list[AdminItem]:
        """Every admin that is up, or was until a moment ago, by name."""
        if not actor.may_anywhere(Permission.VIEW):
            actor.require(Permission.VIEW)
        return await self._store.read(_admins)

    async def database(self, actor: Actor) -> ServerFacts:
        """What the database is; any person may know that."""
        actor.require(Permission.LOGGED_IN)
        return await self._store.read(read_server_facts)

    async def paused_at(self) -> int | None:
        """Since when everything is paused; None: it is not."""
        return await self._store.read(lambda conn: read_pauses(conn, ()).everything)

    async def pause_all(self, actor: Actor) -> None:
        """Let no trigger of any executor fire from now on; runs that are due or live go on.

        Runs by hand, through the API and of child jobs are not held back. Pausing twice changes
        nothing.
        """
        await self._set_paused(actor, paused=True)

    async def resume_all(self, actor: Actor) -> None:
        """Let triggers fire again, from now on: what the pause held back is skipped.

        What is paused by itself stays so.
        """
        await self._set_paused(actor, paused=False)

    async def _set_paused(self, actor: Actor, *, paused: bool) -> None:
        actor.require(Permission.ADMINISTER)

        def change(conn: sa.Connection, entry: AuditEntry) -> None:
            # Two at once meet at the setting's primary key: the loser repeats and ends here.
            if (read_pauses(conn, ()).everything is not None) == paused:
                return
            pause_everything(conn, at=now_ms(conn) if paused else None)
            entry.write("system.paused" if paused else "system.resumed")

        await self._audited.run(actor, change, JOBS, TRIGGERS, QUEUED)


def _admins(conn: sa.Connection) -> list[AdminItem]:
    now = now_ms(conn)
    return [
        AdminItem(
            id=each.id,
            name=each.name,
            version=each.version,
            started_at=each.started_at,
            uptime_ms=max(0, now - each.started_at),
            lease_expires_at=each.lease_expires_at,
            live=each.lease_expires_at > now,
            status=status_from_json(each.status),
        )
        for each in list_admins(conn, limit=MAX_ADMINS)
    ]


def loop_label(name: str) -> Word:
    """What a loop of an admin is for, as a message id; else its name."""
    return _LOOP_LABELS.get(name, Word(name))
