"""Parameters of handlers that say what they take: a field for each, and JSON whenever one likes."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console


def given(page: Page) -> object:
    """The parameters of the run that the page shows."""
    block = page.locator("section", has=page.get_by_role("heading", name="Parameters"))
    return json.loads(block.locator("pre").inner_text())


def test_a_run_is_asked_for_with_a_form(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("422")  # how a form with a problem is answered
    admin_page.goto(f"{console.url}/jobs/{console.ids['job:month-end']}")
    admin_page.get_by_role("link", name="Run now").click()
    dialog = admin_page.get_by_role("dialog")
    expect(dialog.get_by_role("textbox", name="month")).to_have_value("2026-10")
    expect(dialog.get_by_label("customers")).to_have_value("a\nb")
    dialog.get_by_label("copies").fill("two")
    dialog.get_by_label("copies").press("Enter")
    expect(dialog.locator(".error-text")).to_have_text("This must be a whole number.")
    expect(dialog.get_by_label("copies")).to_be_focused()
    dialog.get_by_label("copies").fill("99")
    dialog.get_by_role("button", name="Run now").click()
    expect(dialog.locator(".error-text")).to_have_text("This must be at most 9.")
    dialog.get_by_label("copies").fill("2")
    dialog.get_by_label("dry_run").check()
    dialog.get_by_label("currency").select_option("cny")

    # Over to JSON, a change there, and back.
    dialog.get_by_role("button", name="Edit as JSON").click()
    text = dialog.get_by_label("Parameters")
    expect(text).to_have_value(re.compile('"copies": 2'))
    text.fill(text.input_value().replace('"2026-10"', '"2026-11"'))
    dialog.get_by_role("button", name="Edit as a form").click()
    expect(dialog.get_by_role("textbox", name="month")).to_have_value("2026-11")
    expect(dialog.get_by_label("dry_run")).to_be_checked()
    dialog.get_by_label("customers").fill("")
    dialog.get_by_role("button", name="Run now").click()
    expect(admin_page).to_have_url(re.compile(r"/runs/\d+$"))
    assert given(admin_page) == {
        "month": "2026-11", "copies": 2, "dry_run": True, "currency": "cny", "customers": [],
    }  # fmt: skip


def test_a_run_is_done_again_with_a_form(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/runs/{console.ids['run:month-end']}")
    admin_page.get_by_role("link", name="Run again with edits").click()
    dialog = admin_page.get_by_role("dialog")
    dialog.get_by_label("due").fill("2026-12-01")
    dialog.get_by_role("button", name="Run again").click()
    expect(admin_page.locator(".facts").first).to_contain_text("Retry")
    assert given(admin_page) == {
        "month": "2026-10", "customers": ["a", "b"], "due": "2026-12-01",
    }  # fmt: skip


def test_the_job_form_has_the_fields_of_the_handler_that_is_chosen(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("422")
    admin_page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:reports']}")
    expect(admin_page.get_by_label("Parameters")).to_have_value("{}")
    admin_page.get_by_role("textbox", name="Name").fill("statements-by-hand")
    admin_page.get_by_role("button", name="reports.month-end").click()
    admin_page.get_by_role("textbox", name="month").fill("2026-11")
    admin_page.get_by_label("customers").fill("c")
    # A trigger more or less leaves them as they are.
    admin_page.get_by_role("button", name="Once At").click()
    expect(admin_page.get_by_role("textbox", name="month")).to_have_value("2026-11")
    admin_page.get_by_role("button", name="Remove trigger 1").click()
    expect(admin_page.get_by_role("button", name="Remove trigger 1")).to_have_count(0)
    admin_page.get_by_label("copies").fill("99")
    admin_page.get_by_role("button", name="Add the job").click()
    expect(admin_page.locator(".error-text")).to_have_text("This must be at most 9.")
    admin_page.get_by_label("copies").fill("")
    admin_page.get_by_role("button", name="Add the job").click()
    expect(admin_page.get_by_role("heading", level=1)).to_contain_text("statements-by-hand")
    admin_page.get_by_role("link", name="Edit").click()
    expect(admin_page.get_by_role("textbox", name="month")).to_have_value("2026-11")
    expect(admin_page.get_by_label("customers")).to_have_value("c")
    # Another handler, which does not say what it takes.
    admin_page.get_by_role("combobox", name="Handler").fill("reports.digest")
    admin_page.get_by_role("combobox", name="Handler").press("Tab")
    expect(admin_page.get_by_label("Parameters")).to_be_visible()
    expect(admin_page.get_by_role("textbox", name="month")).to_have_count(0)


def test_a_new_job_asks_what_runs(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:billing']}")
    expect(admin_page.get_by_role("radio", name="An HTTP call")).to_be_disabled()
    admin_page.get_by_label("Executor", exact=True).select_option(label="infra")
    admin_page.get_by_role("radio", name="An HTTP call").check()
    url = admin_page.get_by_role("textbox", name="url")
    url.fill("https://shop.example/refresh")
    admin_page.get_by_role("radio", name="An HTTP call").press("ArrowRight")
    expect(admin_page.get_by_role("radio", name="SQL")).to_be_checked()
    expect(admin_page.get_by_role("combobox", name="connection")).to_be_visible()
    admin_page.get_by_role("radio", name="An HTTP call").check()
    expect(url).to_have_value("https://shop.example/refresh")
    admin_page.get_by_role("textbox", name="headers").fill("Accept: text/plain")
    admin_page.get_by_role("textbox", name="Name").fill("refresh-prices")
    admin_page.get_by_role("button", name="Add the job").click()
    expect(admin_page.get_by_role("heading", level=1)).to_contain_text("refresh-prices")


def test_what_is_typed_while_the_fields_are_on_their_way_stays(
    admin_page: Page, console: Console
) -> None:
    admin_page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:reports']}")
    held: list[Route] = []
    admin_page.route("**/jobs/new", lambda route: held.append(route), times=1)
    with admin_page.expect_request("**/jobs/new"):
        admin_page.get_by_role("button", name="reports.month-end").click()
    admin_page.get_by_label("Parameters").fill('{"month": "2026-11", "copies": 3}')
    held.pop().continue_()
    # They come once more, with what was typed in them.
    expect(admin_page.get_by_role("textbox", name="month")).to_have_value("2026-11")
    expect(admin_page.get_by_label("copies")).to_have_value("3")


def test_the_form_works_without_scripts(page_without_script: Page, console: Console) -> None:
    page = page_without_script
    page.goto(f"{console.url}/jobs/{console.ids['job:month-end']}/run")
    page.get_by_role("textbox", name="month").fill("2026-12")
    page.get_by_role("button", name="Edit as JSON").click()
    expect(page.get_by_label("Parameters")).to_have_value(re.compile('"2026-12"'))
    page.get_by_role("button", name="Edit as a form").click()
    expect(page.get_by_role("textbox", name="month")).to_have_value("2026-12")
    page.get_by_role("button", name="Run now").click()
    expect(page).to_have_url(re.compile(r"/runs/\d+$"))
    assert given(page) == {"month": "2026-12", "customers": ["a", "b"]}
