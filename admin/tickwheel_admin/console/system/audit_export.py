"""The audit as a file: CSV for spreadsheets, JSON lines for programs; streamed, and bounded."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Sequence

from aiohttp import hdrs, web

from tickwheel_admin.console.frame.formatting import iso
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.system.audit import audit_filter
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.lists.paging import Page
from tickwheel_admin.services.system.audit import AuditItem, AuditQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

MOST_ROWS = 100_000  # the newest ones; further ones by a filter of time
PER_READ = 500
_COLUMNS = (
    "at", "person", "address", "action", "executor", "object_id", "detail", "object", "id",
    "part_of",
)  # fmt: skip
# Spreadsheets take a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

routes = Routes()


@routes.get("/audit.csv", permission=Permission.ADMINISTER)
async def export_csv(request: web.Request) -> web.StreamResponse:
    return await _stream(request, "text/csv", ".csv", _csv_line(_COLUMNS), _as_csv)


@routes.get("/audit.jsonl", permission=Permission.ADMINISTER)
async def export_json(request: web.Request) -> web.StreamResponse:
    return await _stream(request, "application/jsonl", ".jsonl", "", _as_json)


async def _stream(
    request: web.Request, kind: str, ending: str, head: str, line: Callable[[AuditItem], str]
) -> web.StreamResponse:
    actor = actor_of(request)
    set_locale(request)
    query = audit_filter(request.query).query
    # The first read before the answer begins: what is refused is refused with a page.
    page = await request.app[SERVICES].audit.page(actor, query, None, PER_READ)
    response = web.StreamResponse(
        headers={
            hdrs.CONTENT_TYPE: f"{kind}; charset=utf-8",
            hdrs.CONTENT_DISPOSITION: f'attachment; filename="tickwheel-audit{ending}"',
            hdrs.CACHE_CONTROL: "no-store",
        }
    )
    response.enable_compression()
    await response.prepare(request)
    await response.write(head.encode())
    written = 0
    async for items in _everything(request, query, page):
        items = items[: MOST_ROWS - written]
        await response.write("".join(map(line, items)).encode())
        written += len(items)
        if written >= MOST_ROWS:
            break
    await response.write_eof()
    return response


async def _everything(
    request: web.Request, query: AuditQuery, page: Page[AuditItem]
) -> AsyncIterator[Sequence[AuditItem]]:
    """Entries newest first, those of bulk actions followed by all that is part of them."""
    while True:
        for item in page.items:
            yield [item]
            if item.is_bulk:
                async for parts in _pages(request, AuditQuery(part_of=item.id)):
                    yield parts
        if page.next is None:
            return
        page = await request.app[SERVICES].audit.page(actor_of(request), query, page.next, PER_READ)


async def _pages(request: web.Request, query: AuditQuery) -> AsyncIterator[Sequence[AuditItem]]:
    cursor = None
    while True:
        page = await request.app[SERVICES].audit.page(actor_of(request), query, cursor, PER_READ)
        yield page.items
        cursor = page.next
        if cursor is None:
            return


def _values(item: AuditItem) -> tuple[object, ...]:
    return (
        iso(item.at),
        item.user_name,
        item.address,
        item.action,
        item.executor_name,
        item.object_id,
        item.detail,
        _object(item),
        item.id,
        item.part_of or None,
    )


def _object(item: AuditItem) -> str:
    """What it was done to, by name; of a run, its job's."""
    return str(item.detail.get("name") or item.job_name or "")


def _as_json(item: AuditItem) -> str:
    values = dict(zip(_COLUMNS, _values(item), strict=True))
    return json.dumps(values, ensure_ascii=False) + "\n"


def _as_csv(item: AuditItem) -> str:
    values = dict(zip(_COLUMNS, _values(item), strict=True))
    text = json.dumps(item.detail, ensure_ascii=False) if item.detail else ""
    # Where commas are decimal, spreadsheets part cells by semicolons, whatever the quotes say:
    # what follows one would begin a cell. It says the same to whoever reads the JSON.
    values["detail"] = text.replace(";", r"\u003b")
    values["object"] = str(values["object"]).replace(";", ",")
    return _csv_line(tuple(values.values()))


def _csv_line(values: tuple[object, ...]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([_cell(value) for value in values])
    return out.getvalue()


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
