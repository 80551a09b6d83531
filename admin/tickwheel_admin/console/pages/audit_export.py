"""The audit as a file: CSV for spreadsheets, JSON lines for programs; streamed, and bounded."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

from aiohttp import hdrs, web

from tickwheel_admin.console.pages.audit import audit_filter
from tickwheel_admin.console.reader import iso, set_reader
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.audit_log import AuditItem
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import AUDIT
from tickwheel_admin.web.routes import Routes

MOST_ROWS = 100_000  # the newest ones; further ones by a filter of time
PER_READ = 500
_COLUMNS = ("at", "person", "address", "action", "executor", "object_id", "detail")
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
    set_reader(request)
    query = audit_filter(request.query).query
    # The first read before the answer begins: what is refused is refused with a page.
    page = await request.app[AUDIT].page(actor, query, None, PER_READ)
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
    while True:
        items = page.items[: MOST_ROWS - written]
        await response.write("".join(map(line, items)).encode())
        written += len(items)
        if page.next is None or written >= MOST_ROWS:
            break
        page = await request.app[AUDIT].page(actor, query, page.next, PER_READ)
    await response.write_eof()
    return response


def _values(item: AuditItem) -> tuple[object, ...]:
    return (
        iso(item.at),
        item.user_name,
        item.address,
        item.action,
        item.executor_name,
        item.object_id,
        item.detail,
    )


def _as_json(item: AuditItem) -> str:
    values = dict(zip(_COLUMNS, _values(item), strict=True))
    return json.dumps(values, ensure_ascii=False) + "\n"


def _as_csv(item: AuditItem) -> str:
    *plain, detail = _values(item)
    text = json.dumps(detail, ensure_ascii=False) if detail else ""
    # Where commas are decimal, spreadsheets part cells by semicolons, whatever the quotes say:
    # what follows one would begin a cell. It says the same to whoever reads the JSON.
    return _csv_line((*plain, text.replace(";", r"\u003b")))


def _csv_line(values: tuple[object, ...]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([_cell(value) for value in values])
    return out.getvalue()


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
