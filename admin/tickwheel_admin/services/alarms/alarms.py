"""Alarms as people see and treat them: open ones, what was told of them, and acknowledgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.notification import Notification
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, ROLE_PERMISSIONS, Actor, Permission
from tickwheel_admin.services.events.events import ALARMS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found, visible_executors
from tickwheel_admin.store.alarms import alarms as store
from tickwheel_admin.store.alarms.channels import channel_names
from tickwheel_admin.store.alarms.deliveries import notifications_of_alarm
from tickwheel_admin.store.alarms.rules import rule_names
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.jobs.jobs import names_of_jobs
from tickwheel_admin.store.self_audit.results import mark_seen
from tickwheel_admin.store.users.grants import names_of_those_with

MAX_MUTE_S = 30 * 86_400
MAX_COUNTED = 1_000
MAX_ASSIGNEES = 200  # that are told


class _Key(NamedTuple):
    """A place in the list: behind this alarm."""

    last_at: Number
    id: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmItem:
    """An alarm, with the names of what it is about."""

    alarm: Alarm
    rule_name: str
    executor_name: str | None
    job_name: str | None
    may_treat: bool  # acknowledge, mute, assign, close


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmDetail:
    """One alarm, and the messages that told of it."""

    item: AlarmItem
    notifications: Sequence[Notification]  # newest first, at most 100
    channel_names: Mapping[int, str]
    assignees: Sequence[str]  # who may treat it, by name; none for whoever may not


class Alarms:
    """Use cases of alarms."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._audited = AuditedTransactions(store, ids, events)

    # --- finding -----------------------------------------------------------------------------

    async def page(
        self,
        actor: Actor,
        *,
        only_open: bool = True,
        executor_id: int | None = None,
        job_id: int | None = None,
        kind: AlarmKind | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[AlarmItem]:
        """Alarms that the caller may see, those that happened last first."""
        actor.require(Permission.LOGGED_IN)
        limit = check_limit(limit)
        key = decode_cursor(cursor, _Key)

        def read(conn: sa.Connection) -> Page[AlarmItem]:
            found = store.page_alarms(
                conn,
                only_open=only_open,
                executor_ids=visible_executors(actor, executor_id),
                job_id=job_id,
                kind=kind,
                before=None if key is None else (key.last_at, key.id),
                limit=limit + 1,
            )
            items = _items(conn, actor, found[:limit])
            last = found[limit - 1] if len(found) > limit else None
            return Page(
                items=items,
                next=None if last is None else encode_cursor(_Key(last.last_at, last.id)),
            )

        return await self._store.read(read)

    async def get(self, actor: Actor, alarm_id: int) -> AlarmDetail:
        """One alarm, open or closed."""
        actor.require(Permission.LOGGED_IN)

        def read(conn: sa.Connection) -> AlarmDetail:
            alarm = _visible(conn, actor, alarm_id)
            notifications = notifications_of_alarm(conn, alarm_id)
            item = _items(conn, actor, [alarm])[0]
            return AlarmDetail(
                item=item,
                assignees=_assignees(conn, alarm) if item.may_treat else (),
                notifications=notifications,
                channel_names=channel_names(conn, {each.channel_id for each in notifications}),
            )

        return await self._store.read(read)

    async def count_open(self, actor: Actor) -> int:
        """How many open alarms the caller may see; counted up to 1,000."""
        return await self._store.read(
            store.count_open_alarms, executor_ids=visible_executors(actor), most=MAX_COUNTED
        )

    # --- treating ----------------------------------------------------------------------------

    async def acknowledge(self, actor: Actor, alarm_id: int) -> None:
        """The caller looks after it: it is neither repeated nor escalated any more.

        Raises:
            Conflict: alarm.closed, alarm.acknowledged.
        """

        def acknowledge(conn: sa.Connection, entry: AuditEntry) -> None:
            alarm = _to_treat(conn, actor, alarm_id)
            if not store.acknowledge_alarm(conn, alarm_id, by=actor.name, now=now_ms(conn)):
                raise Conflict(
                    "alarm.acknowledged",
                    "“%(name)s” has acknowledged this alarm already.",
                    name=alarm.acknowledged_by or "",
                )
            _note(entry, "alarm.acknowledged", alarm)

        await self._audited.run(actor, acknowledge, ALARMS)

    async def mute(self, actor: Actor, alarm_id: int, *, seconds: int | None) -> None:
        """Tell nothing more of it for so long; None: tell again.

        Raises:
            InvalidInput: seconds, not 1 to 30 days.
            Conflict: alarm.closed.
        """
        if seconds is not None and not 1 <= seconds <= MAX_MUTE_S:
            raise InvalidInput.one(
                "seconds",
                "out_of_range",
                "This must lie between %(low)s and %(high)s.",
                low=1,
                high=MAX_MUTE_S,
            )

        def mute(conn: sa.Connection, entry: AuditEntry) -> None:
            alarm = _to_treat(conn, actor, alarm_id)
            now = now_ms(conn)
            until = None if seconds is None else now + seconds * 1000
            store.mute_alarm(conn, alarm_id, until=until, now=now)
            _note(entry, "alarm.muted" if until else "alarm.unmuted", alarm, seconds=seconds)

        await self._audited.run(actor, mute, ALARMS)

    async def assign(self, actor: Actor, alarm_id: int, *, to: str | None) -> None:
        """Say who looks after it: somebody who may treat it; None: nobody.

        Who else has an account is not told: unknown names, and those of others, are refused alike.

        Raises:
            InvalidInput: to, when nobody who may treat it has this name.
            Conflict: alarm.closed.
        """

        def assign(conn: sa.Connection, entry: AuditEntry) -> None:
            alarm = _to_treat(conn, actor, alarm_id)
            if to is not None and not _assignees(conn, alarm, name=to):
                raise InvalidInput.one(
                    "to",
                    "user.unknown",
                    "Nobody named “%(name)s” may treat this alarm. Choose one of those who may.",
                    name=to[:100],
                )
            store.assign_alarm(conn, alarm_id, to=to)
            _note(entry, "alarm.assigned", alarm, assigned_to=to)

        await self._audited.run(actor, assign, ALARMS)

    async def close(self, actor: Actor, alarm_id: int) -> None:
        """End it by hand; the same happening again opens another one.

        Whoever ends one of the self-audit has looked at the differences that stand; these stay.

        Raises:
            Conflict: alarm.closed.
        """

        def close(conn: sa.Connection, entry: AuditEntry) -> None:
            alarm = _to_treat(conn, actor, alarm_id)
            now = now_ms(conn)
            store.close_alarms(conn, [alarm_id], now=now, by=actor.name)
            if alarm.kind is AlarmKind.LEDGER_DIFFERENCE:
                mark_seen(conn, found_until=alarm.last_at, now=now, by=actor.name)
            _note(entry, "alarm.closed", alarm)

        await self._audited.run(actor, close, ALARMS)


def _items(conn: sa.Connection, actor: Actor, alarms: Sequence[Alarm]) -> list[AlarmItem]:
    rules = rule_names(conn, [each.rule_id for each in alarms])
    executors = executor_names(conn, {each.executor_id for each in alarms if each.executor_id})
    jobs = names_of_jobs(conn, {each.job_id for each in alarms if each.job_id})
    return [
        AlarmItem(
            alarm=each,
            rule_name=rules.get(each.rule_id, ""),
            executor_name=executors.get(each.executor_id or 0),
            job_name=jobs.get(each.job_id or 0),
            may_treat=actor.may(Permission.OPERATE, each.executor_id or ALL_EXECUTORS),
        )
        for each in alarms
    ]


def _visible(conn: sa.Connection, actor: Actor, alarm_id: int) -> Alarm:
    alarm = store.get_alarm(conn, alarm_id)
    if alarm is None or not actor.may(Permission.VIEW, alarm.executor_id or ALL_EXECUTORS):
        raise not_found()
    return alarm


def _to_treat(conn: sa.Connection, actor: Actor, alarm_id: int) -> Alarm:
    alarm = _visible(conn, actor, alarm_id)
    if not actor.may(Permission.OPERATE, alarm.executor_id or ALL_EXECUTORS):
        raise NotAllowed(
            "not_allowed",
            "To treat this alarm, your role needs the permission “%(permission)s”.",
            permission=Permission.OPERATE.value,
        )
    # Locked until the end of the transaction: the evaluator closes alarms as well.
    locked = store.lock_alarms(conn, [alarm_id])
    if not locked or not locked[0].is_open:
        raise Conflict("alarm.closed", "This alarm is closed. What was the matter is over.")
    return locked[0]


def _assignees(conn: sa.Connection, alarm: Alarm, *, name: str | None = None) -> list[str]:
    """Names of those who may treat it, or the one name when it is of these."""
    roles = [role for role, may in ROLE_PERMISSIONS.items() if Permission.OPERATE in may]
    of = alarm.executor_id or ALL_EXECUTORS
    return names_of_those_with(conn, roles, of, name=name, limit=MAX_ASSIGNEES)


def _note(entry: AuditEntry, action: str, alarm: Alarm, **detail: object) -> None:
    entry.write(
        action,
        alarm.id,
        executor_id=alarm.executor_id,
        kind=alarm.kind.value,
        subject=alarm.subject,
        **detail,
    )
