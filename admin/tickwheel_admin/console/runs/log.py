"""The log of a run: pages of it at any place, a stream that goes on while the run does, a file."""

from __future__ import annotations

import asyncio
import json
import re

from aiohttp import web

from tickwheel_admin.console.frame.streams import Stream
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.runs.log_text import log_text
from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.events.events import log_topic
from tickwheel_admin.services.runs.log_lines import LinesWanted
from tickwheel_admin.services.runs.service import LogEntry, LogPage
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes
from tickwheel_shared.protocol import Level

RUN = "/runs/{run_id:[0-9]{1,18}}"
POLL_SECONDS = 1.0  # for lines that another admin stored, and for the run's end
RETRY_SECONDS = 5.0  # for the next attempt, while the run waits for it
GATHER_SECONDS = 0.1  # lines within this time are read at once
LINES_AT_ONCE = 1_000
LINES_OF_FILE = 5_000
FAR_BEHIND = 20_000  # lines that nobody could read anyway: the stream leaves them out
MAX_FIND_CHARS = 200
_EVENT_ID = re.compile(r"([0-9]{1,9})\.([0-9]{1,12})")

routes = Routes()


@routes.get(f"{RUN}/log/lines", permission=Permission.VIEW)
async def show_lines(request: web.Request) -> web.Response:
    """Lines behind `after`, or before `before`, or without both the last ones.

    `find` and `levels` choose among them; one answer looks through a bounded part of the log, so
    that it may hold few lines or none though there is `more`.
    """
    actor, run_id = actor_of(request), int(request.match_info["run_id"])
    attempt = whole_number(request.query.get("attempt"))
    after = whole_number(request.query.get("after"))
    wanted = _wanted(request)
    if after is not None:
        page = await request.app[SERVICES].runs.log(
            actor, run_id, attempt=attempt, after=after, limit=LINES_AT_ONCE, wanted=wanted
        )
        told = {"next": page.next, "last": page.last, "more": page.more}
        lines, attempt = page.lines, page.attempt
    else:
        earlier = await request.app[SERVICES].runs.log_before(
            actor,
            run_id,
            attempt=attempt,
            before=whole_number(request.query.get("before")),
            limit=LINES_AT_ONCE,
            wanted=wanted,
        )
        told = {"first": earlier.first, "next": earlier.next, "more": earlier.first > 1}
        lines, attempt = earlier.lines, earlier.attempt
    text = json.dumps(
        {"attempt": attempt, "lines": [_line(each) for each in lines], **told}, ensure_ascii=False
    )
    response = web.json_response(text=text, headers={"Cache-Control": "no-store"})
    response.enable_compression()
    return response


@routes.get(f"{RUN}/log/stream", permission=Permission.VIEW)
async def stream_log(request: web.Request) -> web.StreamResponse:
    """Lines as they are stored.

    Without `attempt` the stream goes over to the next attempt when there is one. An event's id is
    "attempt.line", and a browser that comes back with it misses and repeats nothing. One that is
    far behind is told with "skip", and gets what is newest.
    """
    run_id = int(request.match_info["run_id"])
    chosen = whole_number(request.query.get("attempt"))
    attempt, after = _resume_from(request)
    page = await _read(request, run_id, chosen, after)  # 404 before any header is sent
    woken = asyncio.Event()
    # Not of every run's changes: with many runs each stream would read all the time.
    stop = request.app[SERVICES].events.listen(log_topic(run_id), woken.set)
    try:
        async with Stream(request) as stream:
            while await stream.is_wanted():
                if page.attempt != attempt:
                    if attempt is not None:
                        await stream.send("attempt", str(page.attempt))
                        page = await _read(request, run_id, chosen, 0)
                    attempt = page.attempt
                if page.last - page.next > FAR_BEHIND:
                    await stream.send("skip")
                    page = await _read(request, run_id, chosen, page.last - LINES_AT_ONCE)
                if page.lines:
                    await stream.send(
                        "lines",
                        json.dumps([_line(entry) for entry in page.lines], ensure_ascii=False),
                        event_id=f"{attempt}.{page.next}",
                    )
                elif page.ended and (chosen is not None or await _is_final(request, run_id)):
                    await stream.send("end")
                    break
                else:
                    # Between two attempts nothing comes for a while, however long that is.
                    pause = RETRY_SECONDS if page.ended else POLL_SECONDS
                    if await stream.wait(woken, at_most=pause):
                        await asyncio.sleep(GATHER_SECONDS)
                    woken.clear()
                after = page.next
                page = await _read(request, run_id, chosen, after)
    finally:
        stop()
    return stream.response


@routes.get(f"{RUN}/log.txt", permission=Permission.VIEW)
async def download_log(request: web.Request) -> web.StreamResponse:
    """All lines of an attempt as text, read and sent piece by piece; `last=1000`: those only."""
    if last := whole_number(request.query.get("last")):
        return await _show_last(request, last)
    run_id, attempt = int(request.match_info["run_id"]), whole_number(request.query.get("attempt"))
    page = await _read(request, run_id, attempt, 0, limit=LINES_OF_FILE)
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Disposition": f'attachment; filename="run-{run_id}-{page.attempt}.log"',
        }
    )
    attempt = page.attempt
    await response.prepare(request)
    while page.lines:
        await response.write(log_text(page.lines).encode("utf-8", "replace"))
        if not page.more:
            break
        page = await _read(request, run_id, attempt, page.next, limit=LINES_OF_FILE)
    await response.write_eof()
    return response


async def _show_last(request: web.Request, last: int) -> web.Response:
    page = await request.app[SERVICES].runs.log_before(
        actor_of(request),
        int(request.match_info["run_id"]),
        attempt=whole_number(request.query.get("attempt")),
        limit=min(last, LINES_OF_FILE),
    )
    response = web.Response(
        body=log_text(page.lines).encode("utf-8", "replace"),
        content_type="text/plain",
        charset="utf-8",
        headers={"Cache-Control": "no-store"},
    )
    response.enable_compression()
    return response


async def _read(
    request: web.Request,
    run_id: int,
    attempt: int | None,
    after: int,
    *,
    limit: int = LINES_AT_ONCE,
) -> LogPage:
    return await request.app[SERVICES].runs.log(
        actor_of(request), run_id, attempt=attempt, after=after, limit=limit
    )


def _wanted(request: web.Request) -> LinesWanted:
    """What the reader looks for; levels that do not exist are left out."""
    named = set(request.query.get("levels", "").split())
    return LinesWanted(
        text=request.query.get("find", "")[:MAX_FIND_CHARS],
        levels=frozenset(level for level in Level if level.value in named),
    )


async def _is_final(request: web.Request, run_id: int) -> bool:
    detail = await request.app[SERVICES].runs.get(actor_of(request), run_id)
    return detail.item.run.state in FINAL


def _resume_from(request: web.Request) -> tuple[int | None, int]:
    """Attempt and line that the browser has; (None, 0) when it has none."""
    known = request.headers.get("Last-Event-ID") or request.query.get("after", "")
    found = _EVENT_ID.fullmatch(known)
    return (int(found[1]), int(found[2])) if found else (None, 0)


def _line(entry: LogEntry) -> dict[str, object]:
    return {"n": entry.seq, "t": entry.at, "l": str(entry.level), "x": entry.text}
