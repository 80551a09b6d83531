"""The calendar form: what its fields mean as the raw input of a calendar, and back.

Everything typed comes back as it was typed when something is wrong; the rules themselves are in
`domain.calendar_input`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from multidict import MultiMapping

from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.input.calendar import calendar_to_raw
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.wall_clock import WEEKDAYS, seconds_of_time, short_time
from tickwheel_admin.services.calendars.service import ImportedDays

_DEFAULTS: dict[str, str] = {
    "version": "",
    "name": "",
    "description": "",
    "sense": "exclude",
    "dates": "",
    "yearly": "",
    "month_days": "",
    "weekdays": "",
    "windows": "",
    "base": "",
    "import_text": "",
    "year": "",
}
_LISTS = ("dates", "yearly", "month_days", "windows")  # typed as texts with many entries
_ENTRY = re.compile(r"([a-z_]+)\[([0-9]+)\](?:\..+)?")
_WINDOW = re.compile(r"\s*([0-9:]+)\s*[-–—~至到]\s*([0-9:]+)\s*")
_ENTRIES = re.compile(r"[\n,;，；、]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionRow:
    """A cron expression whose instants are taken away, as it was typed."""

    expression: str
    dialect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarForm:
    """The values of all fields, as text, and what is wrong with them."""

    values: Mapping[str, str]
    exclusions: tuple[ExclusionRow, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def name_of(self, name: str) -> str:
        """Name of a field in the form."""
        return name

    def id_of(self, name: str) -> str:
        """Id of a field in the page."""
        return f"c-{name.replace('_', '-')}"

    def problem(self, name: str) -> Problem | None:
        """What is wrong with one field; exclusions are "cron-0", "cron-1" …."""
        return next(iter(self.all_problems(name)), None)

    def all_problems(self, name: str) -> list[Problem]:
        """Everything that is wrong with one field."""
        return [p for p in self.problems if self._place(p) == name]

    def entry(self, problem: Problem) -> str:
        """The entry of a list that a problem is about."""
        match = _ENTRY.fullmatch(problem.field)
        if match is None or match[1] not in _LISTS:
            return ""
        entries = _entries(self[match[1]])
        return entries[int(match[2])][:60] if int(match[2]) < len(entries) else ""

    @property
    def unplaced(self) -> list[Problem]:
        """Problems that belong to no field of the form."""
        rows = {f"cron-{index}" for index in range(len(self.exclusions))}
        return [p for p in self.problems if self._place(p) not in self.values.keys() | rows]

    @property
    def opens_more(self) -> bool:
        """Whether what is seldom needed has something to show."""
        names = ("month_days", "windows", "base")
        return bool(self.exclusions) or any(self[name] or self.problem(name) for name in names)

    def refused(self, problems: Sequence[Problem]) -> CalendarForm:
        """The same, with what is wrong."""
        return replace(self, problems=tuple(problems))

    def changed(self, **values: str) -> CalendarForm:
        """The same with other values."""
        return replace(self, values={**self.values, **values})

    def with_days(self, found: ImportedDays) -> CalendarForm:
        """The same with imported days added, sorted; the text they came from is done with."""
        return self.changed(
            dates=_joined({*_entries(self["dates"]), *found.dates}),
            yearly=_joined({*_entries(self["yearly"]), *found.yearly}),
            import_text="",
        )

    def new_days(self, found: ImportedDays) -> tuple[list[str], list[str]]:
        """Imported dates and yearly days that the form does not have yet."""
        dates, yearly = set(_entries(self["dates"])), set(_entries(self["yearly"]))
        return (
            [day for day in found.dates if day not in dates],
            [day for day in found.yearly if day not in yearly],
        )

    def _place(self, problem: Problem) -> str:
        match = _ENTRY.fullmatch(problem.field)
        if match is None:
            return problem.field
        return f"cron-{match[2]}" if match[1] == "cron" else match[1]


def empty_calendar_form() -> CalendarForm:
    """The form of a new calendar."""
    return CalendarForm(values=_DEFAULTS)


def form_of_calendar(
    name: str, description: str, spec: CalendarSpec, *, version: int
) -> CalendarForm:
    """The form of a stored calendar."""
    raw = calendar_to_raw(name, description, spec)
    windows = (
        f"{short_time(seconds_of_time(w.from_time))}-{short_time(seconds_of_time(w.to_time))}"
        for w in spec.windows
    )
    values = _DEFAULTS | {
        "version": str(version),
        "name": name,
        "description": description,
        "sense": spec.sense.value,
        "dates": "\n".join(spec.dates),
        "yearly": "\n".join(spec.yearly),
        "month_days": ", ".join(map(str, spec.month_days)),
        "weekdays": ",".join(raw["weekdays"]),
        "windows": "\n".join(windows),
        "base": spec.base or "",
    }
    rows = (ExclusionRow(expression=c.expression, dialect=c.dialect.value) for c in spec.cron)
    return CalendarForm(values=values, exclusions=tuple(rows))


def calendar_form_as_sent(sent: MultiMapping[str]) -> CalendarForm:
    """The form as somebody filled it in."""
    values = {name: sent.get(name, default) for name, default in _DEFAULTS.items()}
    values["weekdays"] = ",".join(day for day in WEEKDAYS if day in sent.getall("weekdays", []))
    pairs = zip(sent.getall("cron_expression", []), sent.getall("cron_dialect", []), strict=False)
    rows = tuple(
        ExclusionRow(expression=expression.strip(), dialect=dialect)
        for expression, dialect in pairs
        if expression.strip()
    )
    return CalendarForm(values=values, exclusions=rows)


def calendar_of_form(form: CalendarForm) -> dict[str, Any]:
    """The raw calendar that the form says.

    Raises:
        InvalidInput: windows or days of the month cannot even be read.
    """
    problems: list[Problem] = []
    raw = {
        "name": form["name"],
        "description": form["description"],
        "sense": form["sense"],
        "dates": _entries(form["dates"]),
        "yearly": _entries(form["yearly"]),
        "month_days": list(_read_month_days(form, problems)),
        "weekdays": [day for day in form["weekdays"].split(",") if day],
        "windows": list(_read_windows(form, problems)),
        "cron": [{"expression": r.expression, "dialect": r.dialect} for r in form.exclusions],
        "base": form["base"] or None,
    }
    if problems:
        raise InvalidInput(problems)
    return raw


def _read_month_days(form: CalendarForm, problems: list[Problem]) -> Iterable[int]:
    for index, entry in enumerate(_entries(form["month_days"])):
        if re.fullmatch(r"[0-9]{1,2}", entry):
            yield int(entry)
            continue
        problems.append(
            Problem(
                field=f"month_days[{index}]",
                code="wrong_type",
                template="This must be a whole number.",
            )
        )


def _read_windows(form: CalendarForm, problems: list[Problem]) -> Iterable[dict[str, str]]:
    for index, entry in enumerate(_entries(form["windows"])):
        if match := _WINDOW.fullmatch(entry):
            yield {"from_time": match[1], "to_time": match[2]}
            continue
        problems.append(
            Problem(
                field=f"windows[{index}]",
                code="wrong_type",
                template="Write a window as two wall times, such as 22:00-24:00.",
            )
        )


def dialects() -> list[str]:
    """Dialects that an exclusion may be written in."""
    return [Dialect.QUARTZ.value, Dialect.SPRING.value, Dialect.UNIX.value]


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in _ENTRIES.split(text.replace("\r", "")) if entry.strip()]


def _joined(entries: Iterable[str]) -> str:
    return "\n".join(sorted(entries))
