"""Rules of alarms: those that may apply to some places, and their edits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.rule import (
    AlarmRule,
    RuleScope,
    ids_from_json,
    ids_to_json,
    limits_from_json,
    limits_to_json,
    quiet_from_json,
    quiet_to_json,
)
from tickwheel_admin.store.database.edit_locks import lock_edits
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import ALIVE, alarm_rule, job

MAX_RULES = 5_000  # that are read at once
NO_JOB = 0  # `name_of` of a rule that is not about a job
CHANGES = "alarms.changes"  # a setting that counts edits of rules and channels

_EDITED = (
    "name", "kind", "scope", "executor_id", "job_id", "tag", "additional", "severity", "channels",
    "limits", "own_text", "quiet", "repeat_every_s", "escalate_after_s", "escalate_to",
    "tell_recovery", "group_window_s", "enabled", "next_at",
)  # fmt: skip
_SELECTED = sa.select(
    alarm_rule.c.id, alarm_rule.c.version, *(alarm_rule.c[name] for name in _EDITED)
)


def lock_alarm_edits(conn: sa.Connection) -> None:
    """Let no other edit of rules and channels go on: rules name channels, and names are unique."""
    lock_edits(conn, CHANGES)


def rules_of_places(
    conn: sa.Connection,
    *,
    executor_ids: Collection[int],
    job_ids: Collection[int],
    tags: Collection[str],
) -> list[AlarmRule]:
    """Rules that may apply there, and those of the whole installation."""
    alive = alarm_rule.c.deleted_at == ALIVE
    scope = alarm_rule.c.scope
    parts = [
        reading(
            _SELECTED.where(scope == RuleScope.INSTALLATION.value, alive),
            alarm_rule,
            "ix_alarm_rule_by_scope",
        )
    ]
    if executor_ids:
        wanted = alarm_rule.c.executor_id.in_(sorted(executor_ids))
        of_executor = _SELECTED.where(wanted, alive, scope == RuleScope.EXECUTOR.value)
        parts.append(reading(of_executor, alarm_rule, "ix_alarm_rule_of_executor"))
    if job_ids:
        wanted = alarm_rule.c.job_id.in_(sorted(job_ids))
        parts.append(reading(_SELECTED.where(wanted, alive), alarm_rule, "ix_alarm_rule_of_job"))
    if tags:
        tagged = alarm_rule.c.tag.in_(sorted(tags))
        of_tag = _SELECTED.where(scope == RuleScope.TAG.value, alive, tagged)
        parts.append(reading(of_tag, alarm_rule, "ix_alarm_rule_by_scope"))
    return [_rule(row) for part in parts for row in conn.execute(part)]


def rules_of_kinds(conn: sa.Connection, kinds: Iterable[AlarmKind]) -> list[AlarmRule]:
    """Rules of these kinds, at most `MAX_RULES`; also those that are disabled."""
    wanted = _SELECTED.where(
        alarm_rule.c.kind.in_(sorted(each.value for each in kinds)),
        alarm_rule.c.deleted_at == ALIVE,
    ).limit(MAX_RULES)
    rows = conn.execute(reading(wanted, alarm_rule, "ix_alarm_rule_by_kind"))
    return sorted(map(_rule, rows), key=lambda each: each.id)


def rules_by_id(
    conn: sa.Connection, ids: Iterable[int], *, deleted: bool = False
) -> dict[int, AlarmRule]:
    """Those of the rules that exist.

    Args:
        deleted: also those that were deleted, for what they have left behind.
    """
    known = sorted(set(ids))
    if not known:
        return {}
    wanted = _SELECTED.where(alarm_rule.c.id.in_(known))
    if not deleted:
        wanted = wanted.where(alarm_rule.c.deleted_at == ALIVE)
    return {row.id: _rule(row) for row in conn.execute(wanted)}


def get_rule(conn: sa.Connection, rule_id: int, *, lock: bool = False) -> AlarmRule | None:
    """The rule, unless it is deleted."""
    wanted = _SELECTED.where(alarm_rule.c.id == rule_id, alarm_rule.c.deleted_at == ALIVE)
    row = conn.execute(wanted.with_for_update() if lock else wanted).one_or_none()
    return None if row is None else _rule(row)


def page_rules(
    conn: sa.Connection,
    *,
    scope: Collection[int] | None = None,
    executor_id: int | None = None,
    job_id: int | None = None,
    after: int = 0,
    limit: int,
) -> list[AlarmRule]:
    """Rules by id, those after one: all, or those about an executor and its jobs, or about a job.

    Args:
        scope: leave out rules about other executors than these, and about their jobs; None: none.
    """
    wanted = _SELECTED.where(alarm_rule.c.deleted_at == ALIVE, alarm_rule.c.id > after)
    if scope is not None:
        of_all = sa.and_(alarm_rule.c.executor_id.is_(None), alarm_rule.c.job_id.is_(None))
        wanted = wanted.where(sa.or_(of_all, _of_executors(scope)))
    if executor_id is not None:
        wanted = wanted.where(_of_executors([executor_id]))
    if job_id is not None:
        wanted = wanted.where(alarm_rule.c.job_id == job_id)
    return [_rule(row) for row in conn.execute(wanted.order_by(alarm_rule.c.id).limit(limit))]


def _of_executors(executor_ids: Collection[int]) -> sa.ColumnElement[bool]:
    wanted = sorted(executor_ids)
    of_them = sa.select(job.c.id).where(job.c.id == alarm_rule.c.job_id)
    return sa.or_(
        alarm_rule.c.executor_id.in_(wanted), of_them.where(job.c.executor_id.in_(wanted)).exists()
    )


def rules_of_channel(conn: sa.Connection, channel_id: int) -> list[AlarmRule]:
    """Rules that tell by the channel; reads all of them."""
    rows = conn.execute(_SELECTED.where(alarm_rule.c.deleted_at == ALIVE).order_by(alarm_rule.c.id))
    rules = [_rule(row) for row in rows]
    return [each for each in rules if channel_id in (*each.channels, *each.escalate_to)]


def rules_of_calendar(conn: sa.Connection, name: str) -> list[AlarmRule]:
    """Rules whose deadline or quiet hours follow the calendar; reads all of them."""
    rows = conn.execute(_SELECTED.where(alarm_rule.c.deleted_at == ALIVE).order_by(alarm_rule.c.id))
    rules = [_rule(row) for row in rows]
    return [
        each
        for each in rules
        if name in (each.limits.calendar, None if each.quiet is None else each.quiet.calendar)
    ]


def count_rules(conn: sa.Connection, *, most: int) -> int:
    """How many rules there are, counted up to `most`."""
    some = sa.select(alarm_rule.c.id).where(alarm_rule.c.deleted_at == ALIVE).limit(most)
    return conn.execute(sa.select(sa.func.count()).select_from(some.subquery())).scalar_one()


def rules_of_jobs(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, list[AlarmRule]]:
    """Rules of scope job by their job, each list by id."""
    wanted = _SELECTED.where(
        alarm_rule.c.job_id.in_(sorted(job_ids)), alarm_rule.c.deleted_at == ALIVE
    )
    rows = conn.execute(reading(wanted, alarm_rule, "ix_alarm_rule_of_job"))
    found: defaultdict[int, list[AlarmRule]] = defaultdict(list)
    for rule in sorted(map(_rule, rows), key=lambda each: each.id):
        found[rule.job_id or NO_JOB].append(rule)
    return found


def rule_name_is_taken(conn: sa.Connection, name: str, *, by_other_than: int) -> bool:
    """Whether another rule that is not about a job has the name."""
    wanted = sa.select(alarm_rule.c.id).where(
        alarm_rule.c.name_of == NO_JOB,
        alarm_rule.c.name == name,
        alarm_rule.c.deleted_at == ALIVE,
        alarm_rule.c.id != by_other_than,
    )
    return conn.execute(wanted.limit(1)).first() is not None


def add_rule(conn: sa.Connection, rule: AlarmRule, *, now: int) -> None:
    """Keep a new rule; its unique name is the database's to guard."""
    conn.execute(
        sa.insert(alarm_rule).values(
            id=rule.id,
            version=rule.version,
            created_at=now,
            updated_at=now,
            deleted_at=ALIVE,
            name_of=rule.job_id or NO_JOB,
            **_edited(rule),
        )
    )


def change_rule(conn: sa.Connection, rule: AlarmRule, *, now: int) -> bool:
    """Give a rule its new content; False: it has another version by now, or is deleted.

    Its next deadline is forgotten, and computed anew by the evaluator.
    """
    changed = conn.execute(
        sa.update(alarm_rule)
        .where(
            alarm_rule.c.id == rule.id,
            alarm_rule.c.version == rule.version,
            alarm_rule.c.deleted_at == ALIVE,
        )
        .values(version=rule.version + 1, updated_at=now, **(_edited(rule) | {"next_at": None}))
    )
    return changed.rowcount == 1


def delete_rule(conn: sa.Connection, rule_id: int, *, now: int) -> bool:
    """Delete a rule; the evaluator closes its open alarms. False: it is not there."""
    deleted = conn.execute(
        sa.update(alarm_rule)
        .where(alarm_rule.c.id == rule_id, alarm_rule.c.deleted_at == ALIVE)
        .values(deleted_at=now, next_at=None)
    )
    return deleted.rowcount == 1


def delete_rules_of_jobs(conn: sa.Connection, job_ids: Collection[int], *, now: int) -> None:
    """Delete all rules about jobs; the evaluator closes their open alarms."""
    _delete_rules(conn, alarm_rule.c.job_id.in_(sorted(job_ids)), now=now)


def delete_rules_of_executor(conn: sa.Connection, executor_id: int, *, now: int) -> None:
    """The same of an executor, and of tags of its jobs."""
    _delete_rules(conn, alarm_rule.c.executor_id == executor_id, now=now)


def _delete_rules(conn: sa.Connection, which: sa.ColumnElement[bool], *, now: int) -> None:
    conn.execute(
        sa.update(alarm_rule)
        .where(which, alarm_rule.c.deleted_at == ALIVE)
        .values(deleted_at=now, next_at=None)
    )


def set_next_deadline(conn: sa.Connection, rule: AlarmRule, next_at: int | None) -> bool:
    """Advance a rule's deadline; False: somebody else did, or edited the rule."""
    same = (
        alarm_rule.c.next_at.is_(None)
        if rule.next_at is None
        else (alarm_rule.c.next_at == rule.next_at)
    )
    changed = conn.execute(
        sa.update(alarm_rule)
        .where(alarm_rule.c.id == rule.id, alarm_rule.c.version == rule.version, same)
        .values(next_at=next_at)
    )
    return changed.rowcount == 1


def rules_with_deadlines(conn: sa.Connection, *, before: int, limit: int) -> list[AlarmRule]:
    """Rules whose next deadline is past, the oldest first."""
    rows = conn.execute(
        _SELECTED.where(alarm_rule.c.next_at <= before, alarm_rule.c.deleted_at == ALIVE)
        .order_by(alarm_rule.c.next_at)
        .limit(limit)
    )
    return [_rule(row) for row in rows]


def has_rules(conn: sa.Connection) -> bool:
    """Whether there is any rule, also a deleted one."""
    return conn.execute(sa.select(alarm_rule.c.id).limit(1)).first() is not None


def _edited(rule: AlarmRule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in _EDITED} | {
        "kind": rule.kind.value,
        "scope": rule.scope.value,
        "severity": rule.severity.value,
        "channels": ids_to_json(rule.channels),
        "limits": limits_to_json(rule.limits),
        "quiet": quiet_to_json(rule.quiet),
        "escalate_to": ids_to_json(rule.escalate_to),
    }


def _rule(row: Any) -> AlarmRule:
    values = row._asdict()
    return AlarmRule(
        **values
        | {
            "kind": AlarmKind(row.kind),
            "scope": RuleScope(row.scope),
            "severity": Severity(row.severity),
            "channels": ids_from_json(row.channels),
            "limits": limits_from_json(row.limits),
            "quiet": quiet_from_json(row.quiet),
            "escalate_to": ids_from_json(row.escalate_to),
            "additional": bool(row.additional),
            "tell_recovery": bool(row.tell_recovery),
            "enabled": bool(row.enabled),
        }
    )


def rule_names(conn: sa.Connection, ids: Sequence[int]) -> dict[int, str]:
    """Names of rules, also of deleted ones."""
    wanted = sa.select(alarm_rule.c.id, alarm_rule.c.name).where(alarm_rule.c.id.in_(sorted(ids)))
    return {row.id: row.name for row in conn.execute(wanted)}
