"""Rules of alarms: who is told of what. Those of an executor or job belong to its developers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.job_alarm import JobAlarm, alarm_of_rule
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, Problem
from tickwheel_admin.domain.input.alarm_rule import alarm_rule_to_raw, parse_alarm_rule
from tickwheel_admin.domain.input.job_alarms import MAX_ALARMS
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Permission
from tickwheel_admin.services.alarms.job_rules import Alarms, JobRuleEdits
from tickwheel_admin.services.events.events import ALARMS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.jobs.alarm_rules import MAX_RULES
from tickwheel_admin.services.jobs.declared.guard import managed_by_code
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.alarms import channels as channel_store
from tickwheel_admin.store.alarms import rules as store
from tickwheel_admin.store.calendars.calendars import current_versions
from tickwheel_admin.store.calendars.edits import hold_calendars
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import executor_names, get_executor
from tickwheel_admin.store.jobs.declared import managed_jobs
from tickwheel_admin.store.jobs.jobs import executors_of_jobs, get_job, names_of_jobs


class _Key(NamedTuple):
    """A place in the list: behind this rule."""

    id: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRuleItem:
    """A rule, with the names of what it is about."""

    rule: AlarmRule
    executor_id: int | None  # of the executor, or of the job; None: of all
    executor_name: str | None
    job_name: str | None
    channel_names: Mapping[int, str]
    may_edit: bool
    is_managed: bool  # code declares its job: only code changes it


class AlarmRules:
    """Use cases of rules."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._audited = AuditedTransactions(store, ids, events)
        self._of_jobs = JobRuleEdits(store, ids, events)

    # --- finding -----------------------------------------------------------------------------

    async def page(
        self,
        actor: Actor,
        *,
        executor_id: int | None = None,
        job_id: int | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[AlarmRuleItem]:
        """Rules that the caller may see, in the order in which they were added.

        Args:
            executor_id: only rules about this executor or one of its jobs.
            job_id: only rules about this job.
        """
        actor.require(Permission.LOGGED_IN)
        limit = check_limit(limit)
        key = decode_cursor(cursor, _Key)

        def read(conn: sa.Connection) -> Page[AlarmRuleItem]:
            found = store.page_rules(
                conn,
                scope=actor.scope(Permission.VIEW),
                executor_id=executor_id,
                job_id=job_id,
                after=0 if key is None else key.id,
                limit=limit + 1,
            )
            items = _items(conn, actor, found[:limit])
            more = len(found) > limit
            return Page(
                items=items, next=encode_cursor(_Key(found[limit - 1].id)) if more else None
            )

        return await self._store.read(read)

    async def get(self, actor: Actor, rule_id: int) -> AlarmRuleItem:
        """One rule."""
        actor.require(Permission.LOGGED_IN)
        return await self._store.read(_visible, actor, rule_id)

    # --- changing ----------------------------------------------------------------------------

    async def create(self, actor: Actor, raw: object) -> int:
        """Add a rule; returns its id.

        Raises:
            InvalidInput: with every problem found.
            Conflict: alarm_rule.name_taken, alarm_rule.too_many.
        """
        rule = parse_alarm_rule(raw, rule_id=await self._ids.take("alarm_rule"))
        if rule.job_id is not None:
            await self._add_to_job(actor, rule, rule.job_id)
            return rule.id

        def create(conn: sa.Connection, entry: AuditEntry) -> None:
            create_rule(conn, entry, rule)

        await self._audited.run(actor, create, ALARMS)
        return rule.id

    async def update(self, actor: Actor, rule_id: int, raw: object, *, version: int) -> int:
        """Replace what a rule says; returns its new version. Open alarms of it stay.

        Raises:
            InvalidInput: with every problem found; alarm_rule.kind_changed.
            Conflict: alarm_rule.changed when `version` is no longer current.
        """
        await self._store.read(_editable, actor, rule_id)
        rule = parse_alarm_rule(raw, rule_id=rule_id, version=version)
        if rule.job_id is not None:
            return await self._change_in_job(actor, rule, rule.job_id)

        def update(conn: sa.Connection, entry: AuditEntry) -> int:
            return update_rule(conn, entry, rule)

        return await self._audited.run(
            actor, update, ALARMS, repeated=lambda noted: int(noted.detail["version"])
        )

    async def set_enabled(self, actor: Actor, rule_id: int, *, enabled: bool) -> None:
        """Switch a rule on or off."""
        item = await self.get(actor, rule_id)
        if item.rule.enabled != enabled:
            raw = alarm_rule_to_raw(replace(item.rule, enabled=enabled))
            await self.update(actor, rule_id, raw, version=item.rule.version)

    async def delete(self, actor: Actor, rule_id: int) -> None:
        """Remove a rule; its open alarms are closed within seconds, and told no more."""
        about = await self._store.read(_editable, actor, rule_id)
        if about.job_id is not None:
            await self._remove_from_job(actor, about, about.job_id)
            return

        def delete(conn: sa.Connection, entry: AuditEntry) -> None:
            delete_rule(conn, entry, rule_id)

        await self._audited.run(actor, delete, ALARMS)

    # --- rules about a job, which are part of what the job says ----------------------------------

    async def _add_to_job(self, actor: Actor, rule: AlarmRule, job_id: int) -> None:
        def add(conn: sa.Connection, alarms: Alarms) -> Alarms:
            _check_place(conn, actor, rule)
            if any(each.name == rule.name for each in alarms):
                raise _name_taken(rule.name)
            if len(alarms) >= MAX_ALARMS:
                raise Conflict(
                    "alarm_rule.too_many_of_job",
                    "A job has at most %(limit)d rules of its own.",
                    limit=MAX_ALARMS,
                )
            _check_references(conn, rule)
            return (*alarms, _as_alarm(conn, rule))

        await self._of_jobs.change(actor, job_id, add, rule_id=rule.id)

    async def _change_in_job(self, actor: Actor, rule: AlarmRule, job_id: int) -> int:
        versions = [rule.version]

        def change(conn: sa.Connection, alarms: Alarms) -> Alarms:
            old = _editable(conn, actor, rule.id)
            if old.version != rule.version:
                raise _changed(old)
            versions[:] = [old.version]
            if not _changed_fields(old, rule):
                return alarms
            if rule.name != old.name and any(each.name == rule.name for each in alarms):
                raise _name_taken(rule.name)
            _check_references(conn, rule, old=old)
            versions[:] = [old.version + 1]
            new = _as_alarm(conn, rule)
            return tuple(new if each.name == old.name else each for each in alarms)

        await self._of_jobs.change(actor, job_id, change)
        return versions[0]

    async def _remove_from_job(self, actor: Actor, rule: AlarmRule, job_id: int) -> None:
        def remove(conn: sa.Connection, alarms: Alarms) -> Alarms:
            old = _editable(conn, actor, rule.id)
            return tuple(each for each in alarms if each.name != old.name)

        await self._of_jobs.change(actor, job_id, remove)


def create_rule(conn: sa.Connection, entry: AuditEntry, rule: AlarmRule) -> None:
    """Write a new rule that is not about a job; raises as `AlarmRules.create`."""
    store.lock_alarm_edits(conn)
    owner = _check_place(conn, entry.actor, rule)
    _check_name(conn, rule)
    if store.count_rules(conn, most=MAX_RULES) >= MAX_RULES:
        raise Conflict(
            "alarm_rule.too_many",
            "There are at most %(limit)d rules. Delete some, or use rules of tags.",
            limit=MAX_RULES,
        )
    _check_references(conn, rule)
    store.add_rule(conn, rule, now=now_ms(conn))
    entry.write("alarm_rule.created", rule.id, executor_id=owner, name=rule.name)


def update_rule(conn: sa.Connection, entry: AuditEntry, rule: AlarmRule) -> int:
    """Change one that has this version; returns the new one, and raises as `AlarmRules.update`."""
    rule_id, version = rule.id, rule.version
    store.lock_alarm_edits(conn)
    old = _editable(conn, entry.actor, rule_id)
    if old.version != version:
        raise _changed(old)
    owner = _check_place(conn, entry.actor, rule)
    changed = _changed_fields(old, rule)
    if not changed:
        return old.version
    if rule.name != old.name:
        _check_name(conn, rule)
    _check_references(conn, rule, old=old)
    if not store.change_rule(conn, rule, now=now_ms(conn)):
        raise _changed(old)
    entry.write(
        "alarm_rule.updated",
        rule_id,
        executor_id=owner,
        name=rule.name,
        changed=changed,
        version=version + 1,
    )
    return version + 1


def delete_rule(conn: sa.Connection, entry: AuditEntry, rule_id: int) -> None:
    """Remove one that is not about a job; raises as `AlarmRules.delete`."""
    store.lock_alarm_edits(conn)
    old = _editable(conn, entry.actor, rule_id)
    owner = _owner(conn, old)
    store.delete_rule(conn, rule_id, now=now_ms(conn))
    entry.write("alarm_rule.deleted", rule_id, executor_id=owner, name=old.name)


def _items(conn: sa.Connection, actor: Actor, rules: Sequence[AlarmRule]) -> list[AlarmRuleItem]:
    job_ids = {each.job_id for each in rules if each.job_id is not None}
    owners = executors_of_jobs(conn, job_ids) if job_ids else {}
    jobs = names_of_jobs(conn, job_ids) if job_ids else {}
    managed = managed_jobs(conn, job_ids) if job_ids else {}

    def owner(rule: AlarmRule) -> int | None:
        return rule.executor_id if rule.job_id is None else owners.get(rule.job_id)

    executors = executor_names(conn, {n for each in rules if (n := owner(each)) is not None})
    channels = channel_store.channel_names(
        conn, {n for each in rules for n in (*each.channels, *each.escalate_to)}
    )
    return [
        AlarmRuleItem(
            rule=each,
            executor_id=owner(each),
            executor_name=None if (of := owner(each)) is None else executors.get(of),
            job_name=None if each.job_id is None else jobs.get(each.job_id),
            channel_names={
                n: channels[n] for n in (*each.channels, *each.escalate_to) if n in channels
            },
            may_edit=each.job_id not in managed and may_edit_rule(actor, owner(each)),
            is_managed=each.job_id in managed,
        )
        for each in rules
    ]


def _visible(conn: sa.Connection, actor: Actor, rule_id: int) -> AlarmRuleItem:
    rule = store.get_rule(conn, rule_id)
    if rule is None:
        raise not_found()
    item = _items(conn, actor, [rule])[0]
    if item.executor_id is not None and not actor.may(Permission.VIEW, item.executor_id):
        raise not_found()
    if item.executor_id is None and not actor.may_anywhere(Permission.VIEW):
        raise not_found()
    return item


def _editable(conn: sa.Connection, actor: Actor, rule_id: int) -> AlarmRule:
    item = _visible(conn, actor, rule_id)
    if not may_edit_rule(actor, item.executor_id):
        raise _not_allowed(item.executor_id)
    if item.is_managed:
        raise managed_by_code()
    return item.rule


def may_edit_rule(actor: Actor, executor_id: int | None) -> bool:
    """Whether the caller may edit rules about an executor and its jobs; None: about all."""
    if executor_id is None:
        return actor.may(Permission.ADMINISTER, ALL_EXECUTORS)
    return actor.may(Permission.DEVELOP, executor_id)


def _owner(conn: sa.Connection, rule: AlarmRule) -> int | None:
    if rule.job_id is None:
        return rule.executor_id
    return executors_of_jobs(conn, [rule.job_id]).get(rule.job_id)


def _place(rule: AlarmRule) -> tuple[object, ...]:
    return rule.scope, rule.executor_id, rule.job_id, rule.tag


def _check_place(conn: sa.Connection, actor: Actor, rule: AlarmRule) -> int | None:
    """The executor that the rule is about; that it exists, and that the caller may write it."""
    unknown: str | None = None
    owner = rule.executor_id
    if rule.job_id is not None:
        job = get_job(conn, rule.job_id)
        if job is None or not actor.may(Permission.VIEW, job.executor_id):
            unknown = "job_id"
        else:
            owner = job.executor_id
    elif owner is not None and (
        get_executor(conn, owner) is None or not actor.may(Permission.VIEW, owner)
    ):
        unknown = "executor_id"
    if unknown is not None:
        raise InvalidInput.one(
            unknown, "unknown", "There is nothing of this id, or you may not see it."
        )
    if not may_edit_rule(actor, owner):
        raise _not_allowed(owner)
    return owner


def _check_name(conn: sa.Connection, rule: AlarmRule) -> None:
    if store.rule_name_is_taken(conn, rule.name, by_other_than=rule.id):
        raise _name_taken(rule.name)


def _check_references(
    conn: sa.Connection, rule: AlarmRule, *, old: AlarmRule | None = None
) -> None:
    """That channels and calendars exist; what the rule had before may be gone meanwhile."""
    problems: list[Problem] = []
    for field in ("channels", "escalate_to"):
        kept = set() if old is None else set(getattr(old, field))
        wanted = set(getattr(rule, field)) - kept
        missing = wanted - channel_store.living_channels(conn, wanted)
        problems += [
            Problem(
                field=field,
                code="channel.unknown",
                template="There is no channel with the id %(id)s.",
                params={"id": each},
            )
            for each in sorted(missing)
        ]
    calendars = {
        "limits.calendar": rule.limits.calendar,
        "quiet.calendar": None if rule.quiet is None else rule.quiet.calendar,
    }
    named = {name for name in calendars.values() if name is not None}
    hold_calendars(conn, named)  # none of them is deleted meanwhile
    known = current_versions(conn, named)
    problems += [
        _unknown_calendar(field, name)
        for field, name in calendars.items()
        if name is not None and name not in known
    ]
    if problems:
        raise InvalidInput(problems)


def _unknown_calendar(field: str, name: str) -> Problem:
    refused = InvalidInput.one(
        field, "calendar.unknown", "There is no calendar named “%(name)s”.", name=name
    )
    return refused.problems[0]


def _changed_fields(old: AlarmRule, new: AlarmRule) -> list[str]:
    """Names of the fields that an edit changes; raises InvalidInput when it may not."""
    before, after = alarm_rule_to_raw(old), alarm_rule_to_raw(new)
    if new.kind is not old.kind or _place(new) != _place(old):
        raise InvalidInput.one(
            "kind" if new.kind is not old.kind else "scope",
            "alarm_rule.place_changed",
            "A rule keeps its kind and what it is about, as its open alarms do. Add another"
            " one instead.",
        )
    return [name for name in after if after[name] != before[name]]


def _as_alarm(conn: sa.Connection, rule: AlarmRule) -> JobAlarm:
    names = channel_store.channel_names(conn, {*rule.channels, *rule.escalate_to})
    return alarm_of_rule(
        rule,
        channels=tuple(names[each] for each in rule.channels if each in names),
        escalate_to=tuple(names[each] for each in rule.escalate_to if each in names),
    )


def _name_taken(name: str) -> Conflict:
    return Conflict("alarm_rule.name_taken", "There is already a rule named “%(name)s”.", name=name)


def _changed(old: AlarmRule) -> Conflict:
    return Conflict(
        "alarm_rule.changed",
        "Somebody else changed this rule meanwhile; it is at version %(version)d now. Load it again"
        " and repeat your change.",
        version=old.version,
    )


def _not_allowed(executor_id: int | None) -> NotAllowed:
    if executor_id is None:
        return NotAllowed(
            "not_allowed",
            "This rule is about all executors; to change it, your role needs the permission"
            " “%(permission)s” on all executors.",
            permission=Permission.ADMINISTER.value,
        )
    return NotAllowed(
        "not_allowed",
        "To change rules of this executor, your role needs the permission “%(permission)s” on it.",
        permission=Permission.DEVELOP.value,
    )
