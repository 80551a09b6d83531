"""Live updates of a browser without SharedWorker, as some phones' are: one stream for each tab."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.consoles import Console


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
