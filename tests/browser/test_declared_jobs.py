"""Jobs that code declares, in the browser: what would change, and what people decide."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Request, Route, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console


@pytest.fixture
def declared(admin_page: Page, console: Console) -> Page:
    admin_page.goto(f"{console.url}/executors/{console.ids['executor:reports']}")
    admin_page.get_by_role("link", name="Declared in code").click()
    expect(admin_page.get_by_role("heading", level=1)).to_have_text("Jobs declared in code")
    return admin_page


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def test_each_declaration_says_what_it_is_and_what_would_change(declared: Page) -> None:
    headings = declared.locator(".declared h2").all_inner_texts()
    assert headings == [
        "audit-trail", "statement-export", "tax-export", "weekly-digest", "odd-hours",
        "statements", "month-end", "experiment", "ledger-copy",
    ]  # fmt: skip
    digest = card(declared, "weekly-digest")
    expect(digest.locator(".badge")).to_have_text("Waits for a decision")
    expect(digest.get_by_role("row", name="Timeout")).to_have_text(
        re.compile(r"Timeout\s*none\s*15 min")
    )
    expect(digest.get_by_role("row", name="When")).to_contain_text(
        "At 07:00 every Monday (0 7 * * 1"
    )
    expect(card(declared, "odd-hours").locator(".error-text")).to_have_count(2)
    expect(card(declared, "odd-hours").get_by_role("button")).to_have_count(0)
    expect(card(declared, "statements")).to_contain_text("No live node declares this job any more")


def test_people_decide_and_the_page_follows(declared: Page, console: Console) -> None:
    reload_would_lose = "() => { window.here = true; }"
    declared.evaluate(reload_would_lose)
    digest = card(declared, "weekly-digest")
    digest.get_by_role("button", name="Accept the change").click()
    expect(digest.locator(".badge")).to_have_text("As declared")
    expect(declared.locator("#toasts")).to_contain_text("Code manages the job now.")
    card(declared, "tax-export").get_by_role("button", name="Let code manage it").click()
    expect(card(declared, "tax-export").locator(".badge")).to_have_text("As declared")
    # The same job under its new name: the old declaration is gone with it.
    job = console.ids["job:statements"]
    card(declared, "statement-export").get_by_role("button", name="Rename the job").click()
    expect(card(declared, "statements")).to_have_count(0)
    link = card(declared, "statement-export").get_by_role("link", name="statement-export")
    expect(link).to_have_attribute("href", f"/jobs/{job}")
    assert declared.evaluate("() => window.here")

    # A job in code's hands is not edited here until somebody takes it out of them.
    declared.goto(f"{console.url}/jobs/{job}")
    expect(declared.locator(".notice")).to_contain_text("This job is declared in code")
    expect(declared.get_by_role("link", name="Edit")).to_have_count(0)
    declared.goto(f"{console.url}/jobs/{job}/edit")
    expect(declared.locator("form[action*=edit]")).to_have_count(0)
    declared.get_by_role("link", name="Jobs declared in code").click()
    mine = card(declared, "statement-export")
    mine.get_by_role("button", name="Take it out of code’s hands").click()
    expect(mine.locator(".badge")).to_have_text("In people’s hands")
    declared.goto(f"{console.url}/jobs/{job}")
    expect(declared.get_by_role("link", name="Edit")).to_have_count(1)


def test_a_click_that_reaches_no_admin_says_so(declared: Page, page_errors: PageErrors) -> None:
    page_errors.expected += ["htmx:sendError", "ERR_FAILED"]
    declared.route("**/declared-jobs/ignore", lambda route: route.abort())

    card(declared, "audit-trail").get_by_role("button", name="Ignore").click()

    expect(declared.locator("#toasts")).to_contain_text("The admin does not answer")


def test_a_click_is_not_lost_while_its_part_of_the_page_is_fetched(declared: Page) -> None:
    def is_refresh(request: Request) -> bool:
        return request.headers.get("x-block") == "items"

    held: list[Route] = []
    holding = True

    def hold(route: Route) -> None:
        if holding and is_refresh(route.request):
            held.append(route)
        else:
            route.continue_()

    declared.route("**/declared-jobs", hold)
    with declared.expect_request(is_refresh):
        declared.evaluate("() => document.body.dispatchEvent(new CustomEvent('live:jobs'))")
    with declared.expect_request("**/declared-jobs/ignore", timeout=5_000) as clicked:
        card(declared, "audit-trail").get_by_role("button", name="Ignore").click()
    # What a page fetches by itself is not a sign that somebody is there, and fails silently.
    assert "x-block" not in clicked.value.headers
    holding = False
    for route in held:
        route.continue_()

    expect(card(declared, "audit-trail").locator(".badge")).to_have_text("Ignored")


def test_the_rule_for_declared_jobs_is_chosen(declared: Page) -> None:
    expect(declared.get_by_role("radio", name="Ask")).to_be_checked()
    declared.get_by_role("radio", name="Ignore").check()
    declared.get_by_role("button", name="Save the rule").click()
    expect(declared.locator("#toasts")).to_contain_text("The rule was saved.")
    declared.reload()
    expect(declared.get_by_role("radio", name="Ignore")).to_be_checked()


def test_a_viewer_sees_no_button(page: Page, context: BrowserContext, console: Console) -> None:
    console.open_as(context, "viewer")
    page.goto(f"{console.url}/executors/{console.ids['executor:reports']}/declared-jobs")
    expect(page.locator(".declared").first).to_be_visible()
    assert page.get_by_role("main").get_by_role("button").count() == 0
    assert page.get_by_role("radio").count() == 0


def test_it_works_without_scripts(page_without_script: Page, console: Console) -> None:
    page = page_without_script
    page.goto(f"{console.url}/executors/{console.ids['executor:reports']}/declared-jobs")
    card(page, "experiment").get_by_role("button", name="Add the job").click()
    expect(page.get_by_role("status").first).to_contain_text("Code manages the job now.")
    expect(card(page, "experiment").locator(".badge")).to_have_text("As declared")
