"""The overview: its periods, the way from a column to its runs, and what is done in place."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.kit.consoles import Console


def test_a_period_is_chosen_and_its_columns_lead_to_their_runs(
    admin_page: Page, console: Console
) -> None:
    page = admin_page
    page.goto(console.url + "/")
    chart = page.get_by_role("region", name="Runs, last 24 hours")
    columns = chart.locator("svg.chart a")
    expect(columns).to_have_count(48)
    page.get_by_role("navigation", name="Period").get_by_role("link", name="7d").click()
    expect(page).to_have_url(re.compile(r"/\?p=7d$"))
    week = page.get_by_role("region", name="Runs, last 7 days")
    expect(week.locator("svg.chart a")).to_have_count(56)
    expect(week.locator(".legend")).to_contain_text("Succeeded")
    tile = page.locator(".tile", has_text="Success rate")
    expect(tile.locator("small")).to_have_attribute("title", "Compared with the 7 days before")
    expect(page.locator(".tile", has_text="Start delay p95").locator(".value")).to_contain_text(
        re.compile(r"\d+ ms")
    )
    # Refreshed, an open page keeps its period.
    with page.expect_request(lambda r: r.headers.get("x-block") == "tiles") as asked:
        page.evaluate("() => document.body.dispatchEvent(new Event('live:stats'))")
    assert asked.value.url.endswith("/?p=7d")
    week.locator("svg.chart a").last.click()
    expect(page).to_have_url(re.compile(r"/runs\?.*from"))
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()


def test_runs_are_cancelled_and_retried_in_place_by_who_may(
    admin_page: Page, context: BrowserContext, console: Console
) -> None:
    page = admin_page
    page.goto(console.url + "/")
    running = page.get_by_role("region", name="Running now")
    expect(running.get_by_role("progressbar").first).to_be_visible()
    running.get_by_role("link", name=re.compile("Cancel run")).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    failed = page.get_by_role("region", name="Recent failures")
    failed.get_by_role("button", name=re.compile("Retry run")).first.click()
    expect(page).to_have_url(re.compile(r"/runs/\d+$"))
    console.open_as(context, "viewer")
    page.goto(console.url + "/")
    expect(page.get_by_role("region", name="Recent failures").locator("li").first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Retry"))).to_have_count(0)
    expect(page.get_by_role("link", name=re.compile("Cancel run"))).to_have_count(0)


# --- the time machine ----------------------------------------------------------------------------

MINUTE_MS = 60_000


def instants(page: Page) -> list[int]:
    """Those that the address asks for."""
    return [int(each) for each in parse_qs(urlsplit(page.url).query).get("at", [])]


def test_the_slider_shows_the_instant_at_which_it_rests(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/as-of")
    admin_page.get_by_role("link", name="1 h ago").click()
    (begin,) = instants(admin_page)
    slider = admin_page.get_by_label("Slide to another instant")
    slider.focus()
    for _ in range(3):  # faster than a person: no step of its own for each key
        admin_page.keyboard.press("ArrowLeft")
    admin_page.wait_for_url(re.compile("at=(?!" + str(begin) + ")"))
    (rested,) = instants(admin_page)
    assert rested == begin - 3 * MINUTE_MS
    shown = admin_page.get_by_text("this is the past").locator("time")
    expect(shown).to_have_attribute("datetime", re.compile("T"))
    again = admin_page.get_by_label("Slide to another instant")
    again.press("ArrowRight")
    admin_page.wait_for_url(re.compile("at=(?!" + str(rested) + ")"))
    assert instants(admin_page) == [rested + MINUTE_MS]
    # Back in history, the field with the time counts again.
    admin_page.go_back()
    expect(admin_page.locator("[name=time]")).to_be_enabled()
