"""The self-audit: day by day, then hour by hour with the differences, and exported."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from aiohttp import hdrs, web

from tickwheel_admin.console.frame.formatting import iso
from tickwheel_admin.console.frame.local_time import instant_of, local_zone
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.system.self_audit import (
    AuditedHour,
    AuditTotals,
    SelfAuditReport,
    totals_of,
)
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

_COUNTS = ("expected", "happened", "missing", "doubled", "late", "unexplained")
_HOURS = ("hour_at", *_COUNTS, "explained", "triggers", "audited", "audited_at")
_DIFFERENCES = (
    "hour_at", "what", "at", "trigger_id", "job_id", "job_name", "executor_id", "found_at",
    "closed_at", "seen_at", "seen_by",
)  # fmt: skip
# Spreadsheets take a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

routes = Routes()


@routes.get("/self-audit", permission=Permission.ADMINISTER)
async def show_self_audit(request: web.Request) -> web.Response:
    set_locale(request)  # days are those of the reader's zone
    day = _day(request.query.get("day", ""))
    report = await _report(request, day)
    actor = actor_of(request)
    return await render(
        request,
        "system/self_audit.html",
        {
            "report": report,
            "totals": report.totals,
            "day": day,
            "days": _by_day(report.hours),
            "standing": [each for each in report.differences if each.closed_at is None],
            "sees_all": actor.may(Permission.ADMINISTER),
        },
    )


@routes.get("/self-audit.json", permission=Permission.ADMINISTER)
async def export_json(request: web.Request) -> web.Response:
    set_locale(request)
    report = await _report(request, _day(request.query.get("day", "")))
    whole = {
        "from": iso(report.from_at),
        "to": iso(report.to_at),
        "hours": [dict(zip(_HOURS, _hour(each), strict=True)) for each in report.hours],
        "differences": [
            dict(zip(_DIFFERENCES, row, strict=True)) for row in _difference_rows(report)
        ],
        "more_differences": report.more,
    }
    text = json.dumps(whole, ensure_ascii=False, indent=1) + "\n"
    return _file(text, "application/json", "self-audit.json")


@routes.get("/self-audit.csv", permission=Permission.ADMINISTER)
async def export_csv(request: web.Request) -> web.Response:
    set_locale(request)
    report = await _report(request, _day(request.query.get("day", "")))
    rows = (
        [json.dumps(value) if isinstance(value, dict) else value for value in _hour(each)]
        for each in report.hours
    )
    return _file(_csv(_HOURS, rows), "text/csv", "self-audit.csv")


@routes.get("/self-audit-differences.csv", permission=Permission.ADMINISTER)
async def export_differences(request: web.Request) -> web.Response:
    set_locale(request)
    report = await _report(request, _day(request.query.get("day", "")))
    text = _csv(_DIFFERENCES, _difference_rows(report))
    return _file(text, "text/csv", "self-audit-differences.csv")


async def _report(request: web.Request, day: date | None) -> SelfAuditReport:
    """Of a day, or of the last two weeks."""
    zone = local_zone()  # that of the request, whose context other threads do not have
    return await request.app[SERVICES].self_audit.report(
        actor_of(request),
        from_at=None if day is None else _begin(day),
        to_at=None if day is None else _begin(day + timedelta(days=1)),
        day_begins=lambda at: _midnight(at, zone),
    )


def _midnight(at: int, zone: ZoneInfo) -> int:
    local = datetime.fromtimestamp(at / 1_000, zone)
    return int(local.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()) * 1_000


def _day(text: str) -> date | None:
    """A date of an address; None for what is none."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if 1971 <= day.year <= 2199 else None


def _begin(day: date) -> int:
    return instant_of(f"{day.isoformat()}T00:00") or 0


def _by_day(hours: Iterable[AuditedHour]) -> list[tuple[date, int, AuditTotals]]:
    """(day, an instant of it, what it comes to), newest first."""
    days: dict[date, list[AuditedHour]] = {}
    for each in hours:
        local = datetime.fromtimestamp(each.hour_at / 1_000, local_zone()).date()
        days.setdefault(local, []).append(each)
    return [(day, days[day][0].hour_at, totals_of(days[day])) for day in sorted(days, reverse=True)]


def _hour(hour: AuditedHour) -> list[object]:
    counts = [getattr(hour, name) for name in _COUNTS]
    explained = dict(sorted(hour.explained.items()))
    return [
        iso(hour.hour_at),
        *counts,
        explained,
        hour.triggers,
        hour.audited,
        iso(hour.audited_at),
    ]


def _difference_rows(report: SelfAuditReport) -> Iterable[list[object]]:
    return (
        [
            iso(each.hour_at),
            each.what.value,
            iso(each.at),
            each.trigger_id,
            each.job_id,
            each.job_name,
            each.executor_id,
            iso(each.found_at),
            None if each.closed_at is None else iso(each.closed_at),
            None if each.seen_at is None else iso(each.seen_at),
            each.seen_by,
        ]
        for each in report.differences
    )


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(head)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: object) -> str:
    # Where commas are decimal, spreadsheets part cells by semicolons, whatever the quotes say.
    text = "" if value is None else str(value).replace(";", ",")
    return f"'{text}" if text.startswith(_FORMULA) else text


def _file(text: str, kind: str, name: str) -> web.Response:
    return web.Response(
        text=text,
        headers={
            hdrs.CONTENT_TYPE: f"{kind}; charset=utf-8",
            hdrs.CONTENT_DISPOSITION: f'attachment; filename="tickwheel-{name}"',
            hdrs.CACHE_CONTROL: "no-store",
        },
    )
