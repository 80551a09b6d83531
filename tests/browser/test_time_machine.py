"""The slider of the past."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from tests.browser.kit.consoles import Console

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
