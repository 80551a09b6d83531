"""The self-audit's page, exports and endpoint: to whom they show what, and that they agree."""

from __future__ import annotations

import csv
import json

from tests.admin.kit.served import Served, new_session
from tickwheel_admin.domain.self_audit.comparison import (
    AuditCount,
    DifferenceKind,
    LedgerDifference,
)
from tickwheel_admin.domain.users.user import Grant, Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.self_audit.results import EVERYBODY, write_hour
from tickwheel_admin.web.identity import SESSION_COOKIE

HOUR_MS = 3_600_000


async def audited_hour(site: Served) -> tuple[int, int, int]:
    """(hour, executor, job) of an hour in which one of two executors lacks a fire."""
    ids = [
        (await site.services.executors.create(COMMAND_LINE, name=name, description="")).id
        for name in ("billing", "crm")
    ]
    job = {"name": "=invoices;", "handler": "h"}
    job_id = await site.services.jobs.create(COMMAND_LINE, ids[0], job)
    hour_at = (site.clock() // HOUR_MS - 2) * HOUR_MS
    counts = {each: AuditCount(expected=1_500, happened=1_500) for each in ids}
    counts[ids[0]] = AuditCount(expected=2_000, happened=1_982)
    counts[ids[0]].explained["calendar"] = 17
    counts[ids[0]].differences[DifferenceKind.MISSING] = 1
    counts[EVERYBODY] = AuditCount()
    for each in ids:
        counts[EVERYBODY].add(counts[each])
    found = LedgerDifference(
        trigger_id=7,
        job_id=job_id,
        executor_id=ids[0],
        at=hour_at + 60_000,
        what=DifferenceKind.MISSING,
    )
    await site.services.store.run(
        write_hour,
        hour_at,
        counts,
        [found],
        absences=[],
        triggers=range(20),
        audited=range(10),
        now=hour_at,
    )
    return hour_at, ids[1], job_id


async def test_the_page_adds_up_and_leads_to_hours_and_jobs(site: Served) -> None:
    _, _, job_id = await audited_hour(site)
    await site.log_in("ada", Role.ADMIN)
    page = await (await site.client.get("/self-audit")).text()
    assert "expected 3,500 · happened 3,482 · explained 17 · missing 1" in page
    assert "17 removed by a calendar" in page
    assert "50" in page
    [day] = {each[:10] for each in page.split("/self-audit?day=")[1:]}
    page = await (await site.client.get(f"/self-audit?day={day}")).text()
    assert f'href="/jobs/{job_id}"' in page
    assert "Missing" in page
    assert (
        "No hour was audited yet"
        in await (await site.client.get("/self-audit?day=2001-01-01")).text()
    )

    told = json.loads(await (await site.client.get("/self-audit.json")).text())
    assert [each["expected"] for each in told["hours"]] == [3_500]
    assert [each["trigger_id"] for each in told["differences"]] == [7]
    [row] = csv.DictReader((await (await site.client.get("/self-audit.csv")).text()).splitlines())
    assert (row["happened"], json.loads(row["explained"])) == ("3482", {"calendar": 17})
    text = await (await site.client.get("/self-audit-differences.csv")).text()
    [row] = csv.DictReader(text.splitlines())
    assert (row["what"], row["job_name"]) == ("missing", "'=invoices,")


async def test_whoever_administers_one_executor_sees_what_concerns_it(site: Served) -> None:
    _, crm, _ = await audited_hour(site)
    session = await new_session(site.services, "bob", {crm: Grant(role=Role.ADMIN)})
    site.client.session.cookie_jar.update_cookies({SESSION_COOKIE: session.cookie})
    page = await (await site.client.get("/self-audit")).text()
    assert "expected 1,500 · happened 1,500 · explained 0 · missing 0" in page
    assert "invoices" not in page


async def test_the_api_answers_the_same(site: Served) -> None:
    await audited_hour(site)
    headers = await site.token_for("ada", Role.ADMIN)
    told = await (await site.client.get("/api/v1/self-audit", headers=headers)).json()
    assert told["totals"]["explained"] == {"calendar": 17}
    assert (told["totals"]["hours"], told["totals"]["audited"]) == (1, 10)
    [found] = told["differences"]
    assert (found["what"], found["job_name"], found["closed_at"]) == ("missing", "=invoices;", None)
    address = "/api/v1/self-audit?from=2026-01-01T00:00:00Z&to=2026-06-01T00:00:00Z"
    refused = await site.client.get(address, headers=headers)
    assert refused.status == 422
    assert "62 days" in await refused.text()
    viewer = await site.token_for("bob", Role.VIEWER)
    assert (await site.client.get("/api/v1/self-audit", headers=viewer)).status == 403
