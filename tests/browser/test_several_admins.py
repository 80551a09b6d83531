"""Three real admins behind a plain proxy, one browser: every tab is live, whoever answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import choose_password
from tests.e2e.cluster import Cluster
from tests.support.processes import ManagedProcess, free_port

pytestmark = pytest.mark.slow

TABS = 12


@pytest.fixture
def cluster(postgresql_url: str, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, postgresql_url) as cluster:
        for number in (1, 2, 3):
            cluster.start_admin(f"admin-{number}")
        cluster.add_executor()
        cluster.start_node("node-1")
        yield cluster


@pytest.fixture
def url(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """Of the proxy."""
    port = free_port()
    urls = [admin.url for admin in cluster.admins]
    command = [sys.executable, "-m", "tests.support.round_robin", str(port), *urls]
    with ManagedProcess(command, tmp_path / "proxy.log") as process:
        process.wait_for_line("proxy at", timeout_seconds=20)
        yield f"http://127.0.0.1:{port}"


def log_in(context: BrowserContext, cluster: Cluster, url: str) -> None:
    one_time = cluster.command("user", "add", "ann", "--role", "operator").split()[-1]
    cookie = choose_password(url, "ann", one_time)
    context.add_cookies([{"name": "tickwheel_session", "value": cookie, "url": url}])


def test_every_tab_is_live_whichever_admin_answers_and_after_they_restart(
    page: Page, context: BrowserContext, cluster: Cluster, url: str, page_errors: PageErrors
) -> None:
    expect.set_options(timeout=15_000)
    # While admins are away, the proxy answers 502 and streams break off.
    page_errors.expected += ["502", "ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR", "swap", "htmx"]
    log_in(context, cluster, url)
    job_id = cluster.add_job("report", "report")

    tabs = [page] + [context.new_page() for _ in range(TABS - 1)]
    for tab in tabs:
        tab.goto(f"{url}/runs")
    for tab in tabs:
        expect(tab.locator("[data-live-state]")).to_have_attribute("data-state", "on")

    # Made by the API of one admin, recorded by another, seen by a page of a third.
    run_id = cluster.run_job(job_id, {"count": 3})
    for tab in tabs:
        expect(tab.locator(f'a[href="/runs/{run_id}"]').first).to_be_visible()
    for tab in tabs[1:]:
        tab.close()

    page.goto(f"{url}/runs/{run_id}")
    expect(page.locator("[data-log]")).to_contain_text("line 3 of 3")
    expect(page.locator(".page-head .badge").first).to_contain_text("Succeeded")

    # All of them restart; what happened meanwhile is caught up with.
    page.goto(f"{url}/runs")
    live = page.locator("[data-live-state]")
    expect(live).to_have_attribute("data-state", "on")
    for admin in cluster.admins:
        admin.process.stop()
    expect(live).to_have_attribute("data-state", "off")
    first = cluster.admins[0]
    again = cluster.start_admin(first.name, port=first.port)
    made = cluster.api(again).post(f"/jobs/{job_id}/run", {"parameters": {"count": 1}})
    expect(live).to_have_attribute("data-state", "on")
    expect(page.locator(f'a[href="/runs/{made["run_id"]}"]').first).to_be_visible()
