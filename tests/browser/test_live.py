"""Live updates of a browser without SharedWorker, as some phones' are: one stream for each tab."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import PASSWORD, Console, sample_console


def test_without_a_shared_worker_a_page_is_live_by_itself(
    page: Page, context: BrowserContext, console: Console
) -> None:
    console.open_as(context)
    page.add_init_script("delete window.SharedWorker")
    page.goto(f"{console.url}/runs")
    expect(page.locator("[data-live-state]")).to_have_attribute("data-state", "on")
    assert page.evaluate("'SharedWorker' in window") is False

    other = context.new_page()
    other.goto(f"{console.url}/system/pause")
    other.get_by_role("button", name="Pause everything").click()

    expect(page.get_by_text("Everything is paused")).to_be_visible()


@pytest.mark.parametrize("is_shared", [True, False])
def test_alarms_and_the_bell_follow_what_happens_elsewhere(
    page: Page, context: BrowserContext, console: Console, is_shared: bool
) -> None:
    console.open_as(context)
    if not is_shared:
        page.add_init_script("delete window.SharedWorker")
    page.goto(f"{console.url}/alarms/failures")
    expect(page.locator("[data-live-state]")).to_have_attribute("data-state", "on")
    group = f"/alarms/failures/{console.ids['failure:acquirer']}"
    owner = f"mona-{is_shared}"
    row = page.locator("#rows tr").filter(has=page.locator(f"a[href='{group}']"))

    other = context.new_page()
    other.goto(f"{console.url}{group}")
    other.get_by_label("Owner").fill(owner)
    with page.expect_request(lambda asked: asked.headers.get("x-block") == "bell"):
        other.get_by_role("button", name="Save").click()

    expect(row).to_contain_text(owner)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_page_says_since_when_its_admin_hangs_and_recovers(
    page: Page,
    context: BrowserContext,
    sample: Path,
    tmp_path: Path,
    page_errors: PageErrors,
    is_shared: bool,
) -> None:
    page_errors.expected += ["ERR_", "htmx:sendError"]
    with sample_console(tmp_path / "c", copy_of=sample, heartbeat_seconds=0.4) as console:
        console.open_as(context)
        if not is_shared:
            page.add_init_script("delete window.SharedWorker")
        page.goto(f"{console.url}/runs")
        state = page.locator("[data-live-state]")
        expect(state).to_have_attribute("data-state", "on")
        os.kill(console.pid, signal.SIGSTOP)
        try:
            expect(state).to_have_attribute("data-state", "stale")
            expect(state).to_have_text(
                re.compile(r"^No news since \d\d:\d\d:\d\d$"), use_inner_text=True
            )
            since = state.inner_text()
            page.wait_for_timeout(1_500)  # it tries again, and says the same
            expect(state).to_have_text(since, use_inner_text=True)
        finally:
            os.kill(console.pid, signal.SIGCONT)
        expect(state).to_have_attribute("data-state", "on")


def test_a_page_whose_session_ended_says_so_and_keeps_what_was_typed(
    page: Page, context: BrowserContext, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected += ["401", "403", "MIME type"]  # the stream, refused until the next login
    other = context.new_page()

    def log_in() -> None:
        other.goto(f"{console.url}/login")
        other.get_by_label("Name").fill("viewer")
        other.get_by_label("Password").fill(PASSWORD)
        other.get_by_role("button", name="Log in").click()
        expect(other.get_by_role("heading", name="Overview")).to_be_visible()

    log_in()
    page.goto(f"{console.url}/tokens/new")
    page.get_by_label("Name").fill("half-typed")
    state = page.locator("[data-live-state]")
    expect(state).to_have_attribute("data-state", "on")

    other.get_by_role("button", name="User menu").click()
    other.get_by_role("button", name="Log out").click()
    expect(state).to_have_text("Logged out", use_inner_text=True)
    expect(page.get_by_label("Name")).to_have_value("half-typed")

    log_in()
    expect(state).to_have_attribute("data-state", "on", timeout=10_000)
    expect(page.get_by_label("Name")).to_have_value("half-typed")
