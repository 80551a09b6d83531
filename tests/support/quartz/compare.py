"""Compares the fires of Quartz's triggers with those of what they become here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.imports.quartz.calendars import MappedCalendars, map_calendars
from tickwheel_admin.domain.imports.quartz.records import QuartzCalendar, QuartzJob, QuartzTrigger
from tickwheel_admin.domain.imports.quartz.triggers import NotCarried, map_trigger
from tickwheel_admin.domain.input.calendar import parse_calendar
from tickwheel_admin.domain.input.trigger import parse_trigger
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.store.imports.quartz.connection import open_quartz
from tickwheel_admin.store.imports.quartz.tables import read_calendars_of, read_quartz_jobs

BERLIN = "Europe/Berlin"  # of the JVM that wrote the tables
# Named in the plan, as nothing here does the same.
NOT_CARRIED = {"odd.odd": "kind", "simple.too-quick": "interval"}
NAMED = {"calendars.hourly-shanghai": "calendar_zone", "interval.month-end": "month_end"}


@dataclass(frozen=True)
class ReadQuartz:
    """The scheduler “billing”, read."""

    jobs: Mapping[str, QuartzJob]
    mapped: MappedCalendars
    calendars: Mapping[str, Calendar]
    stored_calendars: Sequence[QuartzCalendar]

    def triggers(self) -> Iterator[QuartzTrigger]:
        for job in self.jobs.values():
            yield from job.triggers

    def next_fires(self, trigger: QuartzTrigger, after: int, count: int) -> list[int]:
        """Here, in seconds; after an instant in ms."""
        mapped = map_trigger(trigger, self.mapped.zones)
        assert mapped is not None
        spec = parse_trigger(mapped.raw)
        schedule = parse(spec, saved_at=0, calendar=self.calendars.get(spec.calendar or ""))
        found: list[int] = []
        at: int | None = after
        while len(found) < min(count, spec.repeat_count or count):
            at = schedule.next_after(at or 0)
            if at is None:
                break
            found.append(at // 1_000)
        return found


def read_quartz(url: str) -> ReadQuartz:
    """Jobs and calendars; each calendar can be imported."""
    with open_quartz(url, prefix="qrtz_") as database:
        jobs = {each.name: each for each in read_quartz_jobs(database, "billing")}
        stored = read_calendars_of(database, "billing")
    mapped = map_calendars(stored, BERLIN)
    calendars: dict[str, Calendar] = {}
    for each in mapped.calendars:
        assert not each.reasons, each
        name, _, spec = parse_calendar(each.raw)
        base = calendars[spec.base] if spec.base else None
        calendars[name] = Calendar(name=name, version=1, spec=spec, base=base)
    return ReadQuartz(jobs=jobs, mapped=mapped, calendars=calendars, stored_calendars=stored)


def differing_triggers(
    quartz: ReadQuartz, fires: Mapping[str, Sequence[int]], *, known: Collection[str] = ()
) -> list[str]:
    """Triggers that fire at other seconds here, or whose difference is not named.

    Args:
        fires: what Quartz says, in ms, by "group.name".
        known: triggers that need not be compared.
    """
    found = sorted(fires.keys() - {each.label for each in quartz.triggers()})
    for trigger in quartz.triggers():
        if trigger.label in known:
            continue
        wanted = [at // 1_000 for at in fires[trigger.label]]
        try:
            mapped = map_trigger(trigger, quartz.mapped.zones)
        except NotCarried as refused:
            is_right = refused.note.code == NOT_CARRIED.get(trigger.label)
        else:
            assert mapped is not None
            if trigger.label in NAMED:
                is_right = NAMED[trigger.label] in {each.code for each in mapped.notes}
            else:
                is_right = quartz.next_fires(trigger, wanted[0] * 1_000 - 1, 50) == wanted
        if not is_right:
            found.append(trigger.label)
    return found
