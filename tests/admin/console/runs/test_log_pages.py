"""The log of a run as the console's pages get it: parts of it, a stream, a file."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.served import Served
from tickwheel_admin.console.runs import log as pages
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs.logs import append_log_chunks
from tickwheel_shared.protocol import Level, LogChunk, WireLine

LINES = 1_200


@pytest.fixture
async def log(site: Served) -> str:
    """Address of an ended run's log with 1,200 lines, for a browser that is logged in."""
    executor = await site.services.executors.create(COMMAND_LINE, name="billing", description="")
    job_id = await site.services.jobs.create(
        COMMAND_LINE, executor.id, {"name": "invoices", "handler": "send"}
    )
    run_id = await site.services.jobs.run_now(
        COMMAND_LINE, job_id, parameters=None, request_key=None, origin=Origin.MANUAL
    )

    def write(conn: sa.Connection) -> None:
        ended = {"state": "succeeded", "attempt": 1, "ended_at": 1, "log_lines": LINES}
        conn.execute(sa.update(tables.run).where(tables.run.c.id == run_id).values(ended))
        for first in range(1, LINES + 1, 100):
            lines = [
                WireLine(at=n, level=Level.ERROR if n == 700 else Level.INFO, text=f"line {n} ü")
                for n in range(first, first + 100)
            ]
            chunk = LogChunk(run=run_id, attempt=1, token="t", first_seq=first, lines=lines)
            append_log_chunks(conn, [chunk])

    await site.services.store.run(write)
    await site.log_in("ann", Role.VIEWER)
    return f"/runs/{run_id}/log"


async def part(site: Served, log: str, query: str) -> dict[str, Any]:
    response = await site.client.get(f"{log}/lines?{query}")
    assert response.status == 200
    found: dict[str, Any] = await response.json()
    return found | {"lines": [line["n"] for line in found["lines"]]}


async def events(site: Served, log: str, query: str) -> list[tuple[str, list[int]]]:
    """What the stream says until it ends: each event, with the numbers of its lines."""
    response = await site.client.get(f"{log}/stream?{query}")
    found = []
    for block in (await response.text()).strip().split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.splitlines())
        if "event" in fields:
            data = json.loads(fields["data"]) if fields["event"] == "lines" else []
            found.append((fields["event"], [line["n"] for line in data]))
    return found


async def test_a_part_is_told_with_where_it_goes_on(site: Served, log: str) -> None:
    end = await part(site, log, "")
    assert (end["lines"][0], end["lines"][-1], end["attempt"]) == (201, LINES, 1)
    assert (end["first"], end["next"], end["more"]) == (201, LINES, True)
    start = await part(site, log, "before=201")
    assert (start["lines"], start["more"]) == (list(range(1, 201)), False)
    middle = await part(site, log, "after=150&attempt=1")
    assert (middle["lines"][0], middle["next"], middle["last"]) == (151, 1_150, LINES)
    found = await part(site, log, "find=LINE+7&levels=error+nonsense")
    assert (found["lines"], found["first"]) == ([700], 1)


async def test_what_is_far_behind_is_told_so_and_gets_what_is_newest(
    site: Served, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = await events(site, log, "")
    assert [(name, len(numbers)) for name, numbers in everything] == [
        ("lines", 1_000),
        ("lines", 200),
        ("end", 0),
    ]
    monkeypatch.setattr(pages, "FAR_BEHIND", 100)
    assert await events(site, log, "after=1.50") == [
        ("skip", []),
        ("lines", list(range(201, 1_201))),
        ("end", []),
    ]
    near = await events(site, log, "after=1.700")
    assert near == [("lines", list(range(701, 1_201))), ("end", [])]


async def test_the_file_has_every_line_once(
    site: Served, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "LINES_OF_FILE", 250)  # it is read in parts
    response = await site.client.get(f"{log}.txt")
    lines = (await response.text()).splitlines()
    assert [line.split("line ")[1] for line in lines] == [f"{n} ü" for n in range(1, LINES + 1)]
    assert lines[0] == "1970-01-01T00:00:00.001+00:00 INFO    line 1 ü"


async def test_the_last_lines_can_be_read_without_the_others(site: Served, log: str) -> None:
    response = await site.client.get(f"{log}.txt?last=2")
    lines = (await response.text()).splitlines()
    assert [line.split("line ")[1] for line in lines] == ["1199 ü", "1200 ü"]
    assert "Content-Disposition" not in response.headers
    assert response.headers["X-Content-Type-Options"] == "nosniff"
