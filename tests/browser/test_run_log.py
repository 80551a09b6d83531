"""A run's log in the browser: at once at any place of it, searched, followed, left alone."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.kit.consoles import Console

IN_PAGE = "() => [...document.querySelectorAll('.log-line')].map(line => Number(line.id.slice(1)))"
MOST = 20_000  # lines that the page keeps


def long_run(console: Console) -> str:
    """The page of a run with 30,000 lines; every 15th from the 12th is an error."""
    return f"{console.url}/runs/{console.ids['run:backup-postgres']}"


def test_the_log_can_be_searched_filtered_and_left_alone(
    admin_page: Page, console: Console
) -> None:
    admin_page.goto(f"{console.url}/runs/{console.ids['run:events-compact']}")
    lines = admin_page.locator(".log-line:visible")
    expect(admin_page.locator(".log-line")).to_have_count(160)
    follow = admin_page.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "true")
    expect(admin_page.locator("#L160")).to_be_in_viewport()
    admin_page.locator(".log-view").dispatch_event("wheel", {"deltaY": -10})
    expect(follow).to_have_attribute("aria-pressed", "false")
    admin_page.get_by_role("button", name="Errors").click()
    expect(lines).to_have_count(10)
    expect(lines.first).to_contain_text("SlowDown")
    admin_page.get_by_role("button", name="All", exact=True).click()
    admin_page.get_by_label("Find in the log").fill("压缩完成")
    expect(lines).to_have_count(11)
    admin_page.get_by_label("Find in the log").fill("")
    expect(lines).to_have_count(160)
    admin_page.locator("#L12 .line-number").click()
    expect(admin_page).to_have_url(re.compile("#L12$"))
    assert admin_page.locator(".log-view img, .log-view script").count() == 0
    expect(admin_page.locator("#L15")).to_contain_text("<img src=x onerror=alert(1)>")


def test_a_long_log_opens_at_its_end_and_goes_back_while_it_is_scrolled(
    admin_page: Page, console: Console
) -> None:
    admin_page.goto(long_run(console))
    expect(admin_page.locator("#L30000")).to_be_in_viewport()
    expect(admin_page.locator("[data-log-count]")).to_have_text("30,000")
    assert admin_page.evaluate(IN_PAGE) == list(range(29_001, 30_001))

    # What is being read stays where it is while earlier lines come in above it.
    view = admin_page.locator(".log-view")
    view.dispatch_event("wheel", {"deltaY": -10})
    view.evaluate("view => { view.scrollTop = 0 }")
    expect(admin_page.locator("#L28001")).to_be_attached()
    expect(admin_page.locator("#L29001")).to_be_in_viewport()
    expect(admin_page.get_by_role("button", name="Follow")).to_have_attribute(
        "aria-pressed", "false"
    )
    admin_page.get_by_role("button", name="Follow").click()
    expect(admin_page.locator("#L30000")).to_be_in_viewport()


def test_a_link_to_a_line_opens_the_log_there(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{long_run(console)}#L15000")
    expect(admin_page.locator("#L15000")).to_be_in_viewport()
    expect(admin_page.locator(".marked")).to_have_attribute("id", "L15000")
    shown = admin_page.evaluate(IN_PAGE)
    assert (shown[0] > 1, shown[-1] < 30_000) == (True, True)

    # From there down to the end; the page keeps a bounded number of lines.
    view = admin_page.locator(".log-view")
    for _ in range(60):
        view.evaluate("view => { view.scrollTop = view.scrollHeight }")
        admin_page.wait_for_timeout(30)
        if admin_page.locator("#L30000").count():
            break
    expect(admin_page.locator("#L30000")).to_be_attached()
    shown = admin_page.evaluate(IN_PAGE)
    assert shown == list(range(shown[0], 30_001))
    assert len(shown) <= MOST

    admin_page.get_by_label("Go to line").fill("1")
    admin_page.get_by_label("Go to line").press("Enter")
    expect(admin_page.locator("#L1")).to_be_in_viewport()
    view.press("End")
    expect(admin_page.locator("#L30000")).to_be_in_viewport()
    admin_page.goto(f"{console.url}/")
    admin_page.goto(f"{long_run(console)}#L900000")  # there is no such line
    expect(admin_page.locator("#L30000")).to_be_in_viewport()


def test_a_search_finds_what_is_not_in_the_page_and_leads_there(
    admin_page: Page, console: Console
) -> None:
    admin_page.goto(long_run(console))
    expect(admin_page.locator("#L30000")).to_be_in_viewport()
    admin_page.get_by_role("button", name="Errors").click()
    expect(admin_page.locator("#L29997")).to_be_in_viewport()
    assert {number % 15 for number in admin_page.evaluate(IN_PAGE)} == {12}
    admin_page.get_by_label("Find in the log").fill("no such words")
    expect(admin_page.locator(".log-view .log-empty")).to_have_text("No line matches.")
    admin_page.get_by_label("Find in the log").fill("slowdown (503)")
    number = admin_page.locator("#L29997 .line-number")
    number.click()
    expect(admin_page.locator("#L29998")).to_be_in_viewport()
    expect(admin_page.locator(".marked")).to_have_attribute("id", "L29997")
    expect(admin_page.get_by_label("Find in the log")).to_have_value("")
    expect(admin_page.get_by_role("button", name="All", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )


def test_the_raw_log_is_a_text_file(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/runs/{console.ids['run:failed']}")
    with admin_page.expect_download() as download:
        admin_page.get_by_role("link", name="Raw").click()

    text = download.value.path().read_text()
    assert download.value.suggested_filename == f"run-{console.ids['run:failed']}-3.log"
    assert text.count("\n") == 3
    assert "INFO    connecting to" not in text.split("\n")[0]
