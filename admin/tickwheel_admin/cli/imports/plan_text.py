"""The plan of an import, printed while it is made: for people, or as one JSON object."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tickwheel_admin.cli.imports.told import (
    LEGEND,
    SIGNS,
    counts_head,
    counts_line,
    wrapped,
)
from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.notes import ImportNote
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.services.imports.calendars import CalendarImport
from tickwheel_admin.services.imports.plan import PlannedImport

_TOLD = 3  # jobs at which the same remark is told; at the end it is said how many have it
_FATES = {fate: fate.value for fate in Fate}


class PlanWriter:
    """Lines of a plan, and the figures at its end."""

    def __init__(self, title: str, *, as_json: bool) -> None:
        self._title = title
        self._json = as_json
        self._first = True
        self._told: Counter[str] = Counter()
        self.calendars: Counter[Fate] = Counter()
        self.jobs: Counter[Fate] = Counter()

    @property
    def cannot(self) -> int:
        """How much cannot be imported."""
        return self.jobs[Fate.CANNOT] + self.calendars[Fate.CANNOT]

    @property
    def wanted(self) -> int:
        """How much is to be written."""
        both = self.jobs + self.calendars
        return both[Fate.CREATED] + both[Fate.CHANGED]

    def begin(
        self, remarks: Sequence[ImportNote], calendars: Sequence[CalendarImport]
    ) -> Iterator[str]:
        """What comes before the jobs."""
        self.calendars = Counter(each.fate for each in calendars)
        if self._json:
            head = {
                "source": self._title,
                "remarks": _noted(remarks),
                "calendars": [_calendar_as_json(each) for each in calendars],
            }
            yield json.dumps(head, ensure_ascii=False, indent=2)[:-2] + ',\n  "jobs": ['
            return
        yield from wrapped(self._title, "  ")
        for remark in remarks:
            yield from wrapped(f"  {remark.text}", "    ")
        yield ""
        yield LEGEND
        for each in calendars:
            yield f"{SIGNS[each.fate]} calendar {each.of.name}"
            for told in (*each.reasons, *each.notes):
                yield from wrapped(f"      {told.text}", " " * 8)

    def page(self, jobs: Sequence[PlannedImport]) -> Iterator[str]:
        """Some jobs."""
        self.jobs += Counter(each.fate for each in jobs)
        for each in jobs:
            if self._json:
                text = json.dumps(_job_as_json(each), ensure_ascii=False)
                yield f"    {text}" if self._first else f"    ,{text}"
                self._first = False
            else:
                yield from self._job(each)

    def end(self, gone: Sequence[str], *, failure: str | None, applied: bool) -> Iterator[str]:
        """What comes behind the jobs."""
        if self._json:
            tail = {
                "counts": {
                    word: {name: counts[fate] for fate, name in _FATES.items()}
                    for word, counts in (("calendars", self.calendars), ("jobs", self.jobs))
                },
                "gone": list(gone),
                "applied": applied,
                "refused": failure,
            }
            yield "  ],\n" + json.dumps(tail, ensure_ascii=False, indent=2)[2:]
            return
        common = [(text, count) for text, count in self._told.items() if count > _TOLD]
        if common:
            yield ""
        for text, count in common:
            yield from wrapped(f"{count:,} jobs: {text}.", "  ")
        if gone:
            yield ""
            yield "Imported before, gone there since; they stay as they are here:"
            for name in gone:
                yield f"  {name}"
        yield ""
        yield counts_head()
        if self.calendars:
            yield counts_line("calendars", self.calendars)
        yield counts_line("jobs", self.jobs)

    def _job(self, job: PlannedImport) -> Iterator[str]:
        if job.fate is Fate.UNCHANGED and not job.notes:
            return
        changes = f"; changes: {', '.join(job.changes)}" if job.changes else ""
        head = f"{SIGNS[job.fate]} {job.of.place}"
        name = "" if job.of.place.endswith(job.name) else f": {job.name}"
        yield from wrapped(f"{head}{name}{changes}", " " * 6)
        if job.fate is Fate.CREATED:
            specs = () if job.config is None else job.config.triggers
            for spec, raw in zip(specs[:3], job.raw["triggers"], strict=False):
                yield from wrapped(f"      {_when(spec, raw)}", " " * 8)
            if (more := len(specs) - 3) > 0:
                yield f"      and {more} triggers more"
        for reason in job.reasons:
            yield from wrapped(f"      {reason.text}", " " * 8)
        for each in job.notes if job.fate is not Fate.CANNOT else ():
            self._told[each.text] += 1
            if self._told[each.text] <= _TOLD:
                yield from wrapped(f"      ({each.text})", " " * 8)


def _when(spec: TriggerSpec, raw: Mapping[str, Any]) -> str:
    zone = f" ({spec.timezone})" if spec.timezone else ""
    what = f"{raw['expression']}: " if "expression" in raw else ""
    return f"{what}{spec.describe(str)}{zone}"


def _job_as_json(job: PlannedImport) -> dict[str, Any]:
    return {
        "source": job.of.source,
        "place": job.of.place,
        "id": job.our_id,
        "name": job.name,
        "fate": job.fate.value,
        "changes": list(job.changes),
        "notes": _noted(job.notes),
        "reasons": _noted(job.reasons),
        "job": dict(job.raw) or None,
    }


def _calendar_as_json(calendar: CalendarImport) -> dict[str, Any]:
    return {
        "name": calendar.of.name,
        "id": calendar.our_id,
        "fate": calendar.fate.value,
        "notes": _noted(calendar.notes),
        "reasons": _noted(calendar.reasons),
    }


def _noted(notes: Sequence[ImportNote]) -> list[dict[str, str]]:
    return [{"code": each.code, "text": each.text} for each in notes]
