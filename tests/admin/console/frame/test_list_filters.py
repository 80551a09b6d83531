"""What filter boxes make of what is typed, and of addresses from before there were any."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlencode, urlparse

import pytest
import sqlalchemy as sa
from msgspec import structs

from tests.admin.kit.clock import NOW
from tests.admin.kit.served import Served, served
from tests.admin.kit.services import ADMIN
from tickwheel_admin.console.jobs.filter import read_job_filter
from tickwheel_admin.console.lists.filter_box import FilterTerms
from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.executors.service import ExecutorName
from tickwheel_admin.services.jobs.service import JobQuery
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.runs.runs import lock_runs, move_runs

EXECUTORS = [ExecutorName(id=1, name="billing"), ExecutorName(id=2, name="two words")]


@pytest.mark.parametrize(
    ("address", "query"),
    [
        ({}, JobQuery()),
        ({"q": "nightly report"}, JobQuery(text="nightly report")),
        ({"q": "owner:"}, JobQuery()),  # still being typed
        (
            {"q": 'executor:"two words" tag:a tag:b tag:a owner:"Maria K." handler:h x'},
            JobQuery(executor_id=2, tags=("a", "b"), owner="Maria K.", handler="h", text="x"),
        ),
        ({"q": "state:paused", "sort": "-changed"}, JobQuery(view="paused", sort="-changed")),
        ({"view": "failing", "executor": "1", "q": "x"}, JobQuery(
            view="failing", executor_id=1, text="x")),
        ({"view": "odd", "executor": "77", "sort": "name;drop"}, JobQuery()),  # an old bookmark
        ({"view": "failing", "q": "state:running"}, JobQuery(view="running")),
    ],
)  # fmt: skip
def test_filters_of_jobs(address: dict[str, str], query: JobQuery) -> None:
    typed, found = read_job_filter(address, EXECUTORS)
    assert typed.problems == []
    assert found == query
    again, same = read_job_filter({"q": typed.text, "sort": query.sort}, EXECUTORS)
    assert (again.text, same) == (typed.text, query)  # what is shown says it all


@pytest.mark.parametrize(
    ("text", "codes", "told"),
    [
        ("team:x", ["filter.unknown_key"], "executor:, owner:, tag:, handler:, state:"),
        ("state:odd", ["filter.unknown_value"], "failing, running, paused, active"),
        ("executor:nope", ["filter.unknown_value"], "billing, two words"),
        ("owner:a owner:b", ["filter.repeated"], "owner:"),
        ("a:1 b:2", ["filter.unknown_key"] * 2, "“b:”"),
    ],
)
def test_what_is_wrong_is_told_with_what_there_is(text: str, codes: list[str], told: str) -> None:
    typed, _query = read_job_filter({"q": text}, EXECUTORS)
    assert [problem.code for problem in typed.problems] == codes
    assert told in typed.problems[-1].message


def test_many_values_are_not_all_named() -> None:
    typed = FilterTerms("executor:x", {}, ("executor",))
    typed.word("executor", [f"executor-{n}" for n in range(100)])
    assert "executor-7, …" in typed.problems[0].message
    assert "executor-8" not in typed.problems[0].message


# --- over HTTP -------------------------------------------------------------------------------


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Served]:
    """A console that an admin has logged in to, with two executors that have a job each."""
    async with served(tmp_path) as admin:
        services = admin.services
        await admin.log_in("ada", Role.ADMIN)
        for name in ("billing", "crm"):
            new = await services.executors.create(ADMIN, name=name)
            for job in ("close", f"{name}-only"):
                await services.jobs.create(ADMIN, new.id, {"name": job, "handler": "h"})
        yield admin


async def follow(console: Served, path: str, **values: str) -> tuple[str, str]:
    """The filter that an address leads to, and the page."""
    answer = await console.client.get(f"{path}?{urlencode(values)}")
    assert answer.status == 200
    query = parse_qs(urlparse(str(answer.url)).query)
    assert set(query) <= {"q", "sort", "cursor", "job_name"}, query
    return query.get("q", [""])[0], await answer.text()


async def test_addresses_of_before_lead_to_the_filter(console: Served) -> None:
    at = NOW - 3_600_000
    for path, values, text in (
        ("/jobs", {"view": "paused", "executor": "1"}, "state:paused executor:billing"),
        ("/runs", {"state": "failed_any", "job": "1"}, 'state:failed_any job:"billing / close"'),
        ("/runs", {"executor": "2", "node": "7", "origin": "api", "by": "ada"},
         "executor:crm node:#7 origin:api by:ada"),
        ("/runs", {"from": str(at), "last": "24h"}, "from:2027-01-15T07:00+00:00"),
        ("/runs", {"last": "24h", "trigger": "5", "parent": "6"}, "last:24h trigger:5 parent:6"),
        ("/runs", {"from_local": "2027-01-15T07:00"}, "from:2027-01-15T07:00+00:00"),
        ("/runs", {"state": "odd", "origin": "odd", "node": "x", "last": "9y"}, ""),
        ("/runs", {"job_name": "crm-only"}, 'job:"crm / crm-only"'),
    ):  # fmt: skip
        assert (await follow(console, path, **values))[0] == text, values


async def test_what_is_wrong_with_a_filter_of_runs_is_told(console: Served) -> None:
    for text, told in (
        ("job:close", "Several executors have a job of the name “close”"),
        ("job:nothing", "There is no job:nothing here."),
        ("node:nobody", "There is no node:nobody here."),
        ("executor:x", "There are billing, crm."),
        ("from:soon", "takes a date"),
        ("trigger:x", "takes a number"),
        ("last:24h from:2027-01-15", "Give either"),
        ("state:odd", "There are active, failed_any, unresolved, resolved"),
        ("group:x", "There is no filter “group:”"),
    ):
        _, page = await follow(console, "/runs", q=text)
        assert told in page, text
        assert "<table" not in page, text


async def test_any_text_is_answered(console: Served) -> None:
    dice = random.Random(7)
    parts = ["owner:", "job:", "from:", "executor:", "node:", '"', "\\", "#", "\x00", "9" * 30,
             "\u202e", " ", "a", ":", "2027-01-15T07:00", "999999-01-01", "'",
             "%", "<hr x>"]  # fmt: skip
    for n in range(60):
        text = "".join(dice.choices(parts, k=dice.randint(1, 8)))
        path = ("/jobs", "/runs")[n % 2]
        answer = await console.client.get(f"{path}?{urlencode({'q': text})}")
        assert answer.status in (200, 422), text
        assert "<hr x>" not in await answer.text()


async def test_suggestions_and_files(console: Served) -> None:
    answer = await console.client.get("/filter-values.json?key=job&text=cl")
    assert await answer.json() == ["close"]
    answer = await console.client.get("/filter-values.json?key=password&text=")
    assert await answer.json() == []
    answer = await console.client.get("/jobs/export?all=yes&q=executor:crm")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="jobs.yaml"'
    assert (await answer.text()).count("---\n") == 2
    assert (await console.client.get("/jobs/export?all=yes&q=team:x")).status == 422
    assert (await console.client.get("/jobs/export")).status == 422


async def test_a_number_alone_leads_to_the_run_and_words_are_part_of_a_name(
    console: Served,
) -> None:
    run_id = await console.services.jobs.run_now(COMMAND_LINE, 1)
    other_id = await console.services.jobs.run_now(COMMAND_LINE, 4)
    for text in (str(run_id), f"#{run_id}"):
        answer = await console.client.get(f"/runs?{urlencode({'q': text})}")
        assert urlparse(str(answer.url)).path == f"/runs/{run_id}"
    _, page = await follow(console, "/runs", q="999999")
    assert "No run matches" in page
    text, page = await follow(console, "/runs", q="M-ON last:yesterday")
    assert text == "M-ON last:yesterday"
    _, page = await follow(console, "/runs", q="M-ON")
    assert f'id="run-{other_id}"' in page
    assert f'id="run-{run_id}"' not in page
    assert "crm-only" in page
    _, page = await follow(console, "/runs", q="owner:nobody")
    assert "No run matches" in page
    text, page = await follow(console, "/runs", error="order 48211 is gone")
    assert text == 'error:"order # is gone"'  # as it is understood
    assert "No run matches" in page


async def test_a_failed_run_leads_to_all_that_failed_like_it(console: Served) -> None:
    failed, other = [await console.services.jobs.run_now(COMMAND_LINE, n) for n in (1, 2)]
    store: Store = console.services.runs._store

    def lose(conn: sa.Connection) -> None:
        for run_id, message in ((failed, 'No order 48211 in "a&b"\ntrace'), (other, "No disk")):
            queued = lock_runs(conn, [run_id])[run_id]
            claimed = moves.claimed(queued, node_id=1, token="t", now=NOW)
            done = moves.lost(claimed.after, RetryPolicy(), now=NOW)
            move_runs(conn, [claimed])
            message_too = structs.replace(done.after, message=message)
            move_runs(conn, [structs.replace(done, after=message_too)])

    await store.run(lose)
    _, page = await follow(console, f"/runs/{failed}")
    (link,) = re.findall(r'href="(/runs\?error=[^"]*)"', page)
    text, page = await follow(console, "/runs", **dict(parse_qsl(urlparse(unescape(link)).query)))
    assert text == r'error:"No order # in \"a&b\""'
    assert f'id="run-{failed}"' in page
    assert f'id="run-{other}"' not in page
