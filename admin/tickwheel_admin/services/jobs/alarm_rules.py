"""The alarm rules of a job: their rows follow from its configuration, as those of triggers do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.job_alarm import JobAlarm, rule_of_alarm
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.fields import closest
from tickwheel_admin.store.alarms import rules as store
from tickwheel_admin.store.alarms.channels import channels_named, list_channels
from tickwheel_admin.store.calendars.calendars import current_versions
from tickwheel_admin.store.calendars.edits import hold_calendars

MAX_RULES = 5_000  # of the installation
MAX_NAMES = 500  # of channels that are looked at for what was meant
_CHANNEL_FIELDS = ("channels", "escalate_to")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChanges:
    """What becomes of the rows of a job's rules."""

    added: tuple[AlarmRule, ...] = ()
    changed: tuple[AlarmRule, ...] = ()  # with the version that they have now
    removed: tuple[AlarmRule, ...] = ()

    @property
    def detail(self) -> dict[str, list[str]]:
        """What the audit keeps of it: names."""
        named = {"added": self.added, "changed": self.changed, "removed": self.removed}
        return {name: [rule.name for rule in rules] for name, rules in named.items() if rules}


def plan_rules(
    conn: sa.Connection,
    job_id: int,
    before: Sequence[JobAlarm],
    after: Sequence[JobAlarm],
    *,
    rule_ids: Sequence[int],
) -> RuleChanges:
    """What must change so that the rows say what the configuration will say.

    Nobody else edits rules and channels, or deletes their calendars, until the transaction ends.
    A rule that keeps its kind is the same rule under a new name: its open alarms stay.

    Args:
        rule_ids: for new rules, as many as `after` has.

    Raises:
        InvalidInput: channels or calendars that are not there; too many rules.
    """
    if tuple(before) == tuple(after):
        return RuleChanges()
    store.lock_alarm_edits(conn)
    rows = store.rules_of_jobs(conn, [job_id]).get(job_id, [])
    hold_calendars(conn, _calendars(after))
    ids = _check(conn, before, after, rows)
    unused = iter(rule_ids)
    standing = _matched(rows, after)
    added, changed = [], []
    for alarm in after:
        row = standing.get(alarm.name)
        rule = rule_of_alarm(
            alarm,
            job_id=job_id,
            rule_id=next(unused) if row is None else row.id,
            version=1 if row is None else row.version,
            channels=tuple(ids[name] for name in alarm.channels),
            escalate_to=tuple(ids[name] for name in alarm.escalate_to),
        )
        if row is None:
            added.append(rule)
        elif replace(row, next_at=None) != rule:
            changed.append(rule)
    kept = {row.id for row in standing.values()}
    if store.count_rules(conn, most=MAX_RULES) + len(added) > MAX_RULES:
        raise InvalidInput.one(
            "alarms",
            "alarm_rule.too_many",
            "There are at most %(limit)d rules. Delete some, or use rules of tags.",
            limit=MAX_RULES,
        )
    removed = tuple(row for row in rows if row.id not in kept)
    return RuleChanges(added=tuple(added), changed=tuple(changed), removed=removed)


def look_at_alarms(
    conn: sa.Connection, job_id: int, before: Sequence[JobAlarm], after: Sequence[JobAlarm]
) -> None:
    """The same for a look only; raises likewise."""
    if tuple(before) != tuple(after):
        _check(conn, before, after, store.rules_of_jobs(conn, [job_id]).get(job_id, []))


def write_rules(conn: sa.Connection, changes: RuleChanges, *, now: int) -> None:
    """Write what `plan_rules` found in this transaction."""
    for rule in changes.removed:  # first: a new rule may take the name
        store.delete_rule(conn, rule.id, now=now)
    for rule in changes.changed:
        store.change_rule(conn, rule, now=now)
    for rule in changes.added:
        store.add_rule(conn, rule, now=now)


def _matched(rows: Sequence[AlarmRule], after: Sequence[JobAlarm]) -> dict[str, AlarmRule]:
    """The row that each alarm goes on with: of its name and kind, else one of its kind."""
    by_key = {(row.name, row.kind): row for row in rows}
    found = {each.name: by_key[key] for each in after if (key := (each.name, each.kind)) in by_key}
    taken = {row.id for row in found.values()}
    rest = [row for row in rows if row.id not in taken]
    for alarm in after:
        if alarm.name in found:
            continue
        row = next((row for row in rest if row.kind is alarm.kind), None)
        if row is not None:
            rest.remove(row)
            found[alarm.name] = row
    return found


def _calendars(alarms: Collection[JobAlarm]) -> set[str]:
    return {name for alarm in alarms for name in alarm.calendars.values()}


def _check(
    conn: sa.Connection,
    before: Sequence[JobAlarm],
    after: Sequence[JobAlarm],
    rows: Sequence[AlarmRule],
) -> Mapping[str, int]:
    """Ids of all channels that are named. What the job named before may be gone meanwhile."""
    known = channels_named(conn, {name for alarm in after for _, name in _channels(alarm)})
    ids = _kept_channels(before, rows) | known
    calendars = current_versions(conn, _calendars(after)).keys() | _calendars(before)
    problems: list[Problem] = []
    for index, alarm in enumerate(after):
        where = f"alarms[{index}]"
        problems += [
            _unknown_channel(conn, f"{where}.{field}", name)
            for field, name in _channels(alarm)
            if name not in ids
        ]
        problems += [
            Problem(
                field=f"{where}.{field}",
                code="calendar.unknown",
                template="There is no calendar named “%(name)s”.",
                params={"name": name},
            )
            for field, name in alarm.calendars.items()
            if name not in calendars
        ]
    if problems:
        raise InvalidInput(problems)
    return ids


def _channels(alarm: JobAlarm) -> Iterator[tuple[str, str]]:
    """(field, name) of the channels that an alarm names."""
    for field in _CHANNEL_FIELDS:
        for number, name in enumerate(getattr(alarm, field)):
            yield f"{field}[{number}]", name


def _kept_channels(before: Sequence[JobAlarm], rows: Sequence[AlarmRule]) -> dict[str, int]:
    """What its names meant when the job was saved; channels may be renamed or deleted since."""
    by_name = {row.name: row for row in rows}
    found: dict[str, int] = {}
    for alarm in before:
        row = by_name.get(alarm.name)
        for field in _CHANNEL_FIELDS if row is not None else ():
            found |= dict(zip(getattr(alarm, field), getattr(row, field), strict=False))
    return found


def _unknown_channel(conn: sa.Connection, field: str, name: str) -> Problem:
    """Names of channels are no secret: whoever may edit a job may see and use each of them."""
    meant = closest(name, [each.name for each in list_channels(conn, limit=MAX_NAMES)])
    if meant is None:
        return Problem(
            field=field,
            code="channel.unknown",
            template="There is no channel named “%(name)s”. An administrator can add it; without"
            " channels, the alarm is shown in the console.",
            params={"name": name},
        )
    return Problem(
        field=field,
        code="channel.unknown",
        template="There is no channel named “%(name)s”; did you mean “%(meant)s”?",
        params={"name": name, "meant": meant},
    )
