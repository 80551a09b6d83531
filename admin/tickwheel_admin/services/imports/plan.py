"""What importing jobs of another scheduler would do, page by page, changing nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.alarms.job_alarm import JobAlarm
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.foreign import ForeignJob, note_of_problem
from tickwheel_admin.domain.imports.merge import ImportKind, merge_fields
from tickwheel_admin.domain.imports.names import unique_name
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.input.job import job_to_raw, read_job, trigger_to_raw
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.services.handlers.known import is_offered
from tickwheel_admin.services.jobs.alarm_rules import look_at_alarms
from tickwheel_admin.store.calendars.calendars import read_calendars
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors.executors import allows_scripts, offered_handlers
from tickwheel_admin.store.imports.records import StoredImport, imported_keys, read_imports
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.jobs.jobs import BriefJob

PAGE = 500  # jobs that are planned, and written, at once
_KNOWN_SCHEDULES = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedImport:
    """A foreign job, and what becomes of it here."""

    of: ForeignJob
    fate: Fate
    name: str  # here
    our_id: int | None = None  # None: it is to be created
    revision: int = 0  # of ours, from which a change is made
    raw: Mapping[str, Any] = field(default_factory=dict)  # as it shall be here
    config: JobConfig | None = None  # the same, read; None: it is not to be created
    paused: tuple[TriggerSpec, ...] = ()  # its triggers that are paused there
    content: Mapping[str, Any] = field(default_factory=dict)  # what counts as imported
    changes: tuple[str, ...] = ()
    notes: tuple[ImportNote, ...] = ()
    reasons: tuple[ImportNote, ...] = ()

    @property
    def is_written(self) -> bool:
        return self.fate in (Fate.CREATED, Fate.CHANGED)


class ImportPlanner:
    """Plans the pages of one import; it remembers names and keys, and nothing else of them."""

    def __init__(self, executor_id: int) -> None:
        self.executor_id = executor_id
        self._named: set[str] = set()
        self._numbers: dict[str, int] = {}  # the last one behind a name
        self._over: dict[tuple[TriggerSpec, int | None], bool] = {}
        self._seen: defaultdict[str, set[int]] = defaultdict(set)

    def sources(self, names: Sequence[str]) -> None:
        """Name sources that are read, so that what is gone from one that is empty is told."""
        for name in names:
            self._seen[name]

    def page(self, conn: sa.Connection, jobs: Sequence[ForeignJob]) -> list[PlannedImport]:
        """What becomes of some jobs, in their order."""
        return _Page(conn, self, jobs).planned()

    def gone(self, conn: sa.Connection) -> list[str]:
        """Names here of jobs that were imported before and that no page had."""
        names: list[str] = []
        for source, seen in self._seen.items():
            present = imported_keys(conn, source, kind=ImportKind.JOB)
            missing = sorted({their_id for _, their_id in present} - seen)
            for start in range(0, len(missing), PAGE):
                some = missing[start : start + PAGE]
                rows = read_imports(conn, source, kind=ImportKind.JOB, their_ids=some)
                brief = store_jobs.brief_jobs(conn, [each.our_id for each in rows.values()])
                names += sorted(each.name for each in brief.values())
        return names

    def saw(self, job: ForeignJob) -> bool:
        """Note a job; False: it was there already."""
        if job.their_id in self._seen[job.source]:
            return False
        self._seen[job.source].add(job.their_id)
        return True

    def is_over(self, spec: TriggerSpec, calendar: Calendar | None, now: int) -> bool:
        """Whether a trigger never fires after an instant, UTC epoch ms.

        Many jobs have the same schedule, and one that never meets its calendar takes 30 ms.
        """
        if spec.follows_runs:
            return False
        version = None if calendar is None else calendar.version
        key = msgspec.structs.replace(spec, parameters=None, priority=None), version
        known = self._over.get(key)
        if known is None:
            if len(self._over) >= _KNOWN_SCHEDULES:
                self._over.clear()
            schedule = parse(spec, saved_at=now, calendar=calendar)
            known = self._over[key] = schedule.next_after(now) is None
        return known

    def free_name(self, wanted: str, taken: Mapping[str, int], own_id: int | None) -> str:
        """The name that a job gets; nobody gets it after that."""
        name, number = wanted, self._numbers.get(wanted, 1)
        while name in self._named or taken.get(name, own_id) != own_id:
            number += 1
            name = unique_name(wanted, {wanted}, mark=number)
        self._numbers[wanted] = number  # so that 10,000 of one name are not 50 million questions
        self._named.add(name)
        return name


class _Page:
    """What is known here of the jobs of one page."""

    def __init__(
        self, conn: sa.Connection, planner: ImportPlanner, jobs: Sequence[ForeignJob]
    ) -> None:
        self._conn = conn
        self._planner = planner
        self._jobs = jobs
        self._now = now_ms(conn)
        self._alarms: dict[str, tuple[ImportNote, ...]] = {}
        self._stored: dict[tuple[str, int], StoredImport] = {}
        by_source: defaultdict[str, list[int]] = defaultdict(list)
        for job in jobs:
            by_source[job.source].append(job.their_id)
        for source, their_ids in by_source.items():
            rows = read_imports(conn, source, kind=ImportKind.JOB, their_ids=their_ids)
            self._stored |= {(source, their_id): row for (_, their_id), row in rows.items()}
        ours = [each.our_id for each in self._stored.values()]
        self._brief: Mapping[int, BriefJob] = store_jobs.brief_jobs(conn, ours)
        self._configs = store_jobs.current_configs(conn, ours)
        executor_id = planner.executor_id
        self._taken = store_jobs.jobs_named(conn, executor_id, {each.name for each in jobs})
        self._offered = offered_handlers(conn, [executor_id]).get(executor_id)
        self._allows_scripts = allows_scripts(conn, executor_id)

    def planned(self) -> list[PlannedImport]:
        named = {
            trigger["calendar"]
            for job in self._jobs
            for trigger in job.raw.get("triggers", ())
            if trigger.get("calendar")
        }
        calendars = read_calendars(self._conn, named) if named else {}
        return [self._one(job, calendars) for job in self._jobs]

    def _one(self, job: ForeignJob, calendars: Mapping[str, Calendar]) -> PlannedImport:
        planned = PlannedImport(
            of=job, fate=Fate.CANNOT, name=job.name, notes=job.notes, reasons=job.reasons
        )
        if not self._planner.saw(job):
            return _refused(planned, "twice", "it was there already")
        if job.reasons:
            return planned
        config, problems = read_job({"name": job.name, **job.raw})
        if problems:
            return replace(planned, reasons=tuple(note_of_problem(each) for each in problems))
        if config.script is not None and not self._allows_scripts:
            return _refused(planned, "script.forbidden", "the executor forbids scripts")
        stored = self._stored.get((job.source, job.their_id))
        before = [] if stored is None else stored.content["job"]["triggers"]
        config, paused, notes = self._alive(job, config, calendars, before)
        planned = replace(planned, paused=paused, notes=(*job.notes, *notes))
        theirs = job_to_raw(config)
        theirs.pop("children")
        if stored is not None:
            return self._known(planned, stored, config, theirs)
        if untold := self._alarm_problems(config, before=()):
            return replace(planned, reasons=untold)
        name = self._planner.free_name(config.name, self._taken_by(config.name), None)
        if name != config.name:
            told = note("name_taken", f"another job is called so: this one becomes “{name}”")
            planned = replace(planned, notes=(*planned.notes, told))
        if not is_offered(self._offered, config.handler):
            told = note(
                "handler_unknown", f"no live node offers the handler “{config.handler}” yet"
            )
            planned = replace(planned, notes=(*planned.notes, told))
        return replace(
            planned,
            fate=Fate.CREATED,
            name=name,
            raw={**theirs, "name": name},
            config=replace(config, name=name),
            content={"job": _kept_of(theirs), "name": name},
        )

    def _alive(
        self,
        job: ForeignJob,
        config: JobConfig,
        calendars: Mapping[str, Calendar],
        before: Sequence[Mapping[str, Any]],
    ) -> tuple[JobConfig, tuple[TriggerSpec, ...], list[ImportNote]]:
        """The job without triggers that fire no more; one that was imported before stays."""
        over = [
            place
            for place, spec in enumerate(config.triggers)
            if trigger_to_raw(spec) not in before  # the cheap question first
            and self._planner.is_over(spec, calendars.get(spec.calendar or ""), self._now)
        ]
        paused = tuple(config.triggers[place] for place in job.paused if place not in over)
        if not over:
            return config, paused, []
        alive = tuple(spec for place, spec in enumerate(config.triggers) if place not in over)
        what = "its trigger never fires" if not alive else f"{len(over)} triggers never fire"
        return (
            replace(config, triggers=alive),
            paused,
            [note("never_fires", f"{what} again, left out")],
        )

    def _taken_by(self, name: str) -> Mapping[str, int]:
        """The names that are taken among this one and those with a mark behind it."""
        if name not in self._taken:
            return {}
        marked = [unique_name(name, {name}, mark=number) for number in range(2, 50)]
        found = store_jobs.jobs_named(self._conn, self._planner.executor_id, marked)
        return {**found, name: self._taken[name]}

    def _alarm_problems(
        self, config: JobConfig, *, before: Sequence[JobAlarm]
    ) -> tuple[ImportNote, ...]:
        """Channels and calendars of its alarms that are not there; few alarms differ."""
        key = repr((before, config.alarms))
        if key not in self._alarms:
            self._alarms[key] = ()
            try:
                look_at_alarms(self._conn, 0, before, config.alarms)
            except InvalidInput as error:
                self._alarms[key] = tuple(note_of_problem(each) for each in error.problems)
        return self._alarms[key]

    def _known(
        self,
        planned: PlannedImport,
        stored: StoredImport,
        wanted: JobConfig,
        theirs: dict[str, Any],
    ) -> PlannedImport:
        config, brief = self._configs.get(stored.our_id), self._brief.get(stored.our_id)
        if config is None or brief is None:
            return _refused(planned, "deleted_here", "was imported, and deleted here since")
        base: dict[str, Any] = dict(stored.content["job"])
        mine = job_to_raw(config)
        children = mine.pop("children")
        # The name that it got here may differ from theirs, and is no edit.
        named = mine["name"] == stored.content["name"]
        seen = _kept_of(mine) | ({"name": base["name"]} if named else {})
        merge = merge_fields(base, _kept_of(theirs), seen)
        if "alarms" in merge.changed:
            untold = self._alarm_problems(wanted, before=config.alarms)
            if untold:
                return replace(planned, reasons=untold)
        name = config.name
        if "name" in merge.changed:
            name = self._planner.free_name(
                theirs["name"], self._taken_by(theirs["name"]), stored.our_id
            )
        raw = mine | {each: theirs[each] for each in merge.changed} | {"name": name}
        kept = tuple(
            note("kept", f"{each}: changed there and here, so it stays as it is here")
            for each in merge.kept
        )
        return replace(
            planned,
            fate=Fate.CHANGED if merge.changed or merge.base != base else Fate.UNCHANGED,
            name=name,
            our_id=stored.our_id,
            revision=brief.revision,
            raw={**raw, "children": children},
            content={
                "job": dict(merge.base),
                "name": name if named else stored.content["name"],
            },
            changes=merge.changed,
            notes=(*planned.notes, *kept) if merge.changed or kept else (),
        )


def _kept_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A job as it is compared: of a script its hash, not its source."""
    script = raw.get("script")
    if not isinstance(script, Mapping):
        return dict(raw)
    return {**raw, "script": {k: v for k, v in script.items() if k != "source"}}


def _refused(planned: PlannedImport, code: str, text: str) -> PlannedImport:
    return replace(planned, fate=Fate.CANNOT, reasons=(note(code, text), *planned.reasons))
