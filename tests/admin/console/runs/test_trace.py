"""The trace on a run's page: its id, and a link if somebody said where traces are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.admin.kit.served import served
from tickwheel_admin.domain.runs.trace import caller_trace
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
LINK = f'href="https://jaeger.example/trace/{TRACE_ID}?a=1&amp;b=2"'


@pytest.mark.parametrize("url", [None, "https://jaeger.example/trace/{trace_id}?a=1&b=2"])
async def test_the_page_of_a_run_leads_to_its_trace(tmp_path: Path, url: str | None) -> None:
    async with served(tmp_path, trace_url=url) as site:
        executor = await site.services.executors.create(COMMAND_LINE, name="e", description="")
        job_id = await site.services.jobs.create(
            COMMAND_LINE, executor.id, {"name": "invoices", "handler": "send"}
        )
        traced, other = [
            await site.services.jobs.run_now(COMMAND_LINE, job_id, trace=trace)
            for trace in (caller_trace(f"00-{TRACE_ID}-00f067aa0ba902b7-01"), None)
        ]
        await site.log_in("ann", Role.VIEWER)
        page = await (await site.client.get(f"/runs/{traced}")).text()
        plain = await (await site.client.get(f"/runs/{other}")).text()
    assert (TRACE_ID in page, TRACE_ID in plain) == (True, False)
    assert (LINK in page) is (url is not None)
    assert "jaeger.example" not in plain
