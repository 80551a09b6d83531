"""Alarm rules about tags, executors and the installation; those of a job are part of the job."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.rule import AlarmRule, RuleScope
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.alarm_rule import (
    RULE_FIELDS,
    alarm_rule_to_raw,
    parse_alarm_rule,
)
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.alarms.rules import (
    create_rule,
    delete_rule,
    may_edit_rule,
    update_rule,
)
from tickwheel_admin.services.events.transactions import AuditEntry
from tickwheel_admin.services.gitops.kinds.base import ObjectKind, PlanView, PlanWriting
from tickwheel_admin.services.gitops.objects import (
    ObjectChange,
    ObjectDocument,
    ObjectKey,
    ObjectType,
    StoredObject,
    WantedObject,
)
from tickwheel_admin.services.gitops.refusals import changed_meanwhile, unknown_executor
from tickwheel_admin.store.alarms import rules as store
from tickwheel_admin.store.alarms.channels import channel_names, channels_named

_BY_ID = frozenset({"executor_id", "job_id"})
FIELDS = (*(name for name in RULE_FIELDS if name not in _BY_ID), "executor")
_CHANNELS = ("channels", "escalate_to")


class RuleObjects(ObjectKind):
    """Known by their names."""

    type: ClassVar = ObjectType.RULE

    def ids(
        self, conn: sa.Connection, keys: Collection[ObjectKey], executors: Mapping[str, int]
    ) -> dict[ObjectKey, int]:
        by_name = {each.name: each.id for each in _rules(conn)}
        return {key: by_name[key.name] for key in keys if key.name in by_name}

    def stored(self, view: PlanView, object_ids: Collection[int]) -> list[StoredObject]:
        rules = store.rules_by_id(view.conn, object_ids).values()
        seen = [e for e in rules if e.executor_id is None or e.executor_id in view.names]
        channels = channel_names(
            view.conn, {n for each in seen for n in (*each.channels, *each.escalate_to)}
        )
        return [
            StoredObject(
                key=ObjectKey(type=self.type, name=each.name),
                id=each.id,
                executor_id=each.executor_id or 0,
                fields=_fields(each, view.names, channels),
                mark=str(each.version),
                content=each,
            )
            for each in seen
        ]

    def all_ids(self, view: PlanView) -> list[int]:
        return [
            each.id
            for each in _rules(view.conn)
            if each.executor_id is None or each.executor_id in view.names
        ]

    def read(
        self,
        view: PlanView,
        document: ObjectDocument,
        object_id: int,
        stored: StoredObject | None,
    ) -> WantedObject:
        fields = Fields(document.fields, "", [])
        fields.only(FIELDS)
        raw: dict[str, Any] = {**document.fields, "name": document.key.name}
        executor = fields.text("executor", max_chars=200)
        raw.pop("executor", None)
        if executor:
            if executor not in view.executors:
                fields.problems += unknown_executor(executor).problems
            raw["executor_id"] = view.executors.get(executor, 1)
        if raw.get("scope") == RuleScope.JOB.value:
            fields.refuse(
                "scope",
                "gitops.rule_of_job",
                "Rules about a job are part of its document: write them as its “alarms”.",
            )
        raise_if_any(fields.problems)
        names = {
            name for field in _CHANNELS for name in _list(raw.get(field)) if isinstance(name, str)
        }
        ids = channels_named(view.conn, names) if names else {}
        ids |= {name: object_id for name, object_id in view.new_channels.items() if name in names}
        for field in _CHANNELS:
            for place, name in enumerate(_list(raw.get(field))):
                if name not in ids:
                    fields.problems.append(_no_channel(f"{field}[{place}]", str(name)))
            if raw.get(field):
                raw[field] = [ids.get(name, 1) for name in _list(raw[field])]
        raise_if_any(fields.problems)
        version = 1 if stored is None else int(stored.mark)
        rule = parse_alarm_rule(raw, rule_id=object_id, version=version)
        executors = {object_id: name for name, object_id in view.executors.items()}
        return WantedObject(
            document=document,
            id=object_id,
            executor_id=rule.executor_id or 0,
            fields=_fields(rule, executors, {object_id: name for name, object_id in ids.items()}),
            content=rule,
        )

    def may_write(self, actor: Actor, executor_id: int) -> bool:
        return may_edit_rule(actor, executor_id or None)

    def lock(self, writing: PlanWriting, changes: Sequence[ObjectChange]) -> None:
        store.lock_alarm_edits(writing.conn)

    def write(self, writing: PlanWriting, change: ObjectChange) -> None:
        assert change.wanted is not None  # noqa: S101 - what is deleted does not come here
        entry = AuditEntry(writing.conn, writing.take_one("audit"), writing.actor)
        if change.stored is None:
            create_rule(writing.conn, entry, change.wanted.content)
            return
        try:
            update_rule(writing.conn, entry, change.wanted.content)
        except Conflict as error:
            raise changed_meanwhile(change.key) from error

    def delete(self, writing: PlanWriting, change: ObjectChange) -> None:
        found = store.get_rule(writing.conn, change.object_id)
        assert change.stored is not None  # noqa: S101 - it was there
        if found is None or str(found.version) != change.stored.mark:
            raise changed_meanwhile(change.key)
        entry = AuditEntry(writing.conn, writing.take_one("audit"), writing.actor)
        delete_rule(writing.conn, entry, change.object_id)

    def marks(self, conn: sa.Connection, object_ids: Collection[int]) -> dict[int, str]:
        return {each.id: str(each.version) for each in store.rules_by_id(conn, object_ids).values()}


def _rules(conn: sa.Connection) -> list[AlarmRule]:
    found = store.page_rules(conn, limit=store.MAX_RULES)
    return [each for each in found if each.job_id is None]


def _fields(
    rule: AlarmRule, executors: Mapping[int, str], channels: Mapping[int, str]
) -> dict[str, Any]:
    raw = alarm_rule_to_raw(rule)
    for field in _CHANNELS:
        raw[field] = [channels[each] for each in raw[field] if each in channels]
    executor = None if rule.executor_id is None else executors.get(rule.executor_id)
    return {name: raw[name] for name in raw if name not in _BY_ID} | {"executor": executor}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _no_channel(field: str, name: str) -> Problem:
    refused = InvalidInput.one(
        field, "channel.unknown_name", "There is no channel named “%(name)s”.", name=name[:100]
    )
    return refused.problems[0]
