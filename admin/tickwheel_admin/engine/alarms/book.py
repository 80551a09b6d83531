"""Opens, counts and closes alarms, and decides what is told of them: within one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Alarm, next_of
from tickwheel_admin.domain.alarms.kind import Severity
from tickwheel_admin.domain.alarms.message import Occasion
from tickwheel_admin.domain.alarms.quiet import quiet_until
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.engine.alarms.conditions import CONDITIONS
from tickwheel_admin.engine.alarms.happenings import Happening
from tickwheel_admin.engine.alarms.outbox import NO_EXECUTOR, MessageNames, Telling, tell
from tickwheel_admin.store.alarms.alarms import (
    close_alarms,
    insert_alarms,
    lock_alarms,
    lock_open_alarms,
    update_alarms,
)
from tickwheel_admin.store.alarms.outbox import channels_told

# A job that joins an open failure is told so much later, together with others that join till then.
JOINED_MS = 900_000
NOTED_MS = 60_000  # so often an alarm notes that its condition goes on


class AlarmBook:
    """What one transaction does to alarms."""

    def __init__(
        self,
        conn: sa.Connection,
        names: MessageNames,
        calendars: Mapping[str, Calendar],
        *,
        now: int,
    ) -> None:
        """
        Args:
            calendars: by name, those that quiet hours name.
        """
        self._conn = conn
        self._names = names
        self._calendars = calendars
        self._now = now
        self._tellings: list[Telling] = []
        self.opened = 0
        self.closed = 0
        self.messages = 0

    def happened(
        self,
        happenings: Mapping[tuple[int, str], Sequence[Happening]],
        rules: Mapping[int, AlarmRule],
    ) -> None:
        """Open an alarm for each (rule, subject), or count up the one that is open."""
        open_alarms = lock_open_alarms(self._conn, happenings)
        new: list[tuple[AlarmRule, Sequence[Happening]]] = []
        counted: list[Alarm] = []
        for key, same in happenings.items():
            rule, known = rules[key[0]], open_alarms.get(key)
            if known is None:
                new.append((rule, same))
            elif _is_news(known, same) or self._now - known.last_at >= NOTED_MS:
                counted.append(_counted(known, same, now=self._now))
        ids = self._names.ids.take(len(new))
        opened = [self._opened(*each, alarm_id) for each, alarm_id in zip(new, ids, strict=True)]
        insert_alarms(self._conn, opened)
        update_alarms(self._conn, counted)
        for each in opened:
            rule = rules[each.rule_id]
            self._tell(each, rule, rule.channels, Occasion.OPENED)
        self.opened += len(new)

    def ended(
        self,
        alarms: Iterable[Alarm],
        rules: Mapping[int, AlarmRule],
        *,
        recovered: Iterable[int],
        ended: Iterable[int],
    ) -> None:
        """Close alarms; of those that recovered, everybody is told who was told of them."""
        recovered, ended = set(recovered), set(ended)
        # Looked at before the lock: what happened again since then is not over.
        locked = {each.id: each for each in lock_alarms(self._conn, recovered | ended)}
        unchanged = [
            locked[each.id]
            for each in alarms
            if each.id in locked
            and locked[each.id].is_open
            and locked[each.id].last_at == each.last_at
        ]
        self.closed += close_alarms(self._conn, [each.id for each in unchanged], now=self._now)
        over = [each for each in unchanged if each.id in recovered]
        told = channels_told(self._conn, [each.id for each in over]) if over else {}
        for each in over:
            rule = rules[each.rule_id]
            if rule.tell_recovery:
                self._tell(each, rule, sorted(told.get(each.id, ())), Occasion.RECOVERED)

    def again(self, ids: Sequence[int], rules: Mapping[int, AlarmRule]) -> None:
        """Tell open alarms again, or escalate them, when that is due."""
        changed = []
        for each in lock_alarms(self._conn, ids):
            rule = rules.get(each.rule_id)
            if each.next_at is None or each.next_at > self._now:
                continue
            if rule is None or not rule.enabled:
                changed.append(replace(each, repeat_at=None, escalate_at=None, next_at=None))
                continue
            changed.append(self._told_again(each, rule))
        update_alarms(self._conn, changed)

    def write(self) -> None:
        """Write the messages; the last thing that a transaction does with this."""
        self.messages += tell(self._conn, self._tellings, self._names, now=self._now)
        self._tellings = []

    # --- one alarm -------------------------------------------------------------------------------

    def _opened(self, rule: AlarmRule, same: Sequence[Happening], alarm_id: int) -> Alarm:
        newest = max(same, key=lambda each: (each.at, each.run_id or 0))
        now = self._now
        alarm = Alarm(
            id=alarm_id,
            rule_id=rule.id,
            subject=newest.subject,
            kind=rule.kind,
            severity=rule.severity,
            executor_id=newest.place.executor_id,
            job_id=newest.place.job_id,
            run_id=newest.run_id,
            told=newest.told,
            count=sum(each.count for each in same),
            since=min(each.at if each.since is None else each.since for each in same),
            last_at=newest.at,
            opened_at=now,
            repeat_at=_after(now, rule.repeat_every_s),
            escalate_at=_after(now, rule.escalate_after_s),
        )
        return replace(alarm, next_at=next_of(alarm))

    def _told_again(self, alarm: Alarm, rule: AlarmRule) -> Alarm:
        now = self._now
        later = max(alarm.muted_until or now, self._held_until(alarm, rule) or now)
        if later > now:  # what would have been told meanwhile is told once, then
            return replace(alarm, next_at=later)
        if alarm.escalate_at is not None and alarm.escalate_at <= now:
            self._tell(alarm, rule, rule.escalate_to, Occasion.ESCALATED)
            alarm = replace(alarm, escalate_at=None, escalated_at=now)
        if alarm.repeat_at is not None and alarm.repeat_at <= now:
            number = alarm.repeats + 1
            self._tell(alarm, rule, rule.channels, Occasion.REPEATED, number)
            again_at = _after(now, rule.repeat_every_s)
            alarm = replace(alarm, repeats=number, repeat_at=again_at)
        return replace(alarm, next_at=next_of(alarm))

    def _tell(
        self,
        alarm: Alarm,
        rule: AlarmRule,
        channels: Iterable[int],
        occasion: Occasion,
        number: int = 0,
    ) -> None:
        if alarm.is_muted(self._now):
            return
        held_until = self._held_until(alarm, rule)
        self._tellings += [
            Telling(
                channel_id=channel_id,
                executor_id=alarm.executor_id or NO_EXECUTOR,
                alarm_id=alarm.id,
                occasion=occasion,
                number=number,
                window_s=rule.group_window_s,
                held_until=held_until,
            )
            for channel_id in channels
        ]

    def _held_until(self, alarm: Alarm, rule: AlarmRule) -> int | None:
        """The end of quiet hours that hold now; None: none do."""
        quiet = rule.quiet
        if quiet is None or (quiet.pierced_by_errors and alarm.severity is Severity.ERROR):
            return None
        calendar = self._calendars.get(quiet.calendar or "")
        until = quiet_until(quiet, self._now, calendar=calendar)
        return until if until > self._now else None


def _is_news(alarm: Alarm, same: Sequence[Happening]) -> bool:
    """It happened again, which is more than that a condition goes on."""
    return alarm.kind not in CONDITIONS or any(each.measured_ms is not None for each in same)


def _counted(alarm: Alarm, same: Sequence[Happening], *, now: int) -> Alarm:
    newest = max(same, key=lambda each: (each.at, each.run_id or 0))
    # A condition goes on, and is not counted; what it says of itself may change.
    more = sum(
        each.count
        for each in same
        if alarm.kind not in CONDITIONS
        # A run that is late or slow was counted while it was, if a look has seen it.
        or (each.measured_ms is not None and each.run_id != alarm.run_id)
    )
    if alarm.acknowledged_at is None and any(each.joins for each in same):
        joined_at = now + JOINED_MS
        alarm = replace(alarm, repeat_at=min(alarm.repeat_at or joined_at, joined_at))
    return replace(
        alarm,
        job_id=alarm.job_id if newest.run_id is None else newest.place.job_id,
        told=newest.told if newest.at >= alarm.last_at else alarm.told,
        count=alarm.count + more,
        last_at=max(alarm.last_at, newest.at),
        run_id=newest.run_id or alarm.run_id,
        next_at=next_of(alarm),
    )


def _after(now: int, seconds: int | None) -> int | None:
    return None if seconds is None else now + seconds * 1000
