"""The pages of a job: its history and the way back, its form as YAML, its runs."""

from __future__ import annotations

import re

from playwright.sync_api import BrowserContext, Dialog, Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console, unfold


def test_a_revision_is_compared_and_brought_back(admin_page: Page, console: Console) -> None:
    page = admin_page
    page.goto(f"{console.url}/jobs/{console.ids['job:invoice-close']}")
    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("heading", level=2, name="Revision")).to_have_count(4)
    page.get_by_role("link", name="Compare with current: Revision 2").click()
    compared = page.locator("#compared")
    expect(compared.get_by_role("row", name="Overlap")).to_have_text(
        re.compile(r"Run side by side\s*One after the other")
    )
    expect(compared.get_by_role("row", name="Retries")).to_have_count(0)

    page.get_by_role("link", name="Roll back: Revision 2").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name="Overlap")).to_have_text(
        re.compile(r"One after the other\s*Run side by side")
    )
    dialog.get_by_role("button", name="Roll back to revision 2").click()
    expect(page.locator(".toast")).to_contain_text("The job was rolled back.")
    newest = page.locator(".revision").first
    expect(newest).to_contain_text("Revision 5")
    expect(newest).to_contain_text("admin")
    expect(newest.get_by_role("row", name="Overlap")).to_have_text(
        re.compile(r"One after the other\s*Run side by side")
    )


def test_a_way_back_that_is_closed_says_why(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page = admin_page
    page_errors.expected.append("422")
    page.goto(f"{console.url}/jobs/new?from={console.ids['job:log-rotate']}")
    page.get_by_label("Name", exact=True).fill("child-of-nobody")
    page.get_by_role("button", name="Add the job").click()
    expect(page).to_have_url(re.compile(r"/jobs/\d+$"))
    child = page.url.rpartition("/")[2]
    page.goto(f"{console.url}/jobs/{console.ids['job:disk-usage-probe']}/edit")
    unfold(page, "after")
    page.locator("input[name=child_job]:visible").fill(f"#{child}")
    page.get_by_role("button", name="Save changes").click()
    expect(page.locator(".facts").first).to_contain_text("child-of-nobody")
    job = page.url.partition("#")[0]
    page.goto(f"{console.url}/jobs/{child}")
    expect(page.locator(".facts").first).to_contain_text("disk-usage-probe")
    page.goto(f"{job}/edit")
    unfold(page, "after")
    page.locator("input[name=child_job]:visible").first.fill("")
    page.get_by_role("button", name="Save changes").click()
    expect(page.locator(".facts").first).not_to_contain_text("child-of-nobody")
    page.goto(f"{console.url}/jobs/{child}/delete")
    page.get_by_role("button", name="Delete 1 job").click()
    expect(page).to_have_url(f"{console.url}/jobs")

    page.goto(f"{job}/history/2/roll-back")
    page.get_by_role("button", name="Roll back to revision 2").click()
    expect(page.get_by_role("alert")).to_contain_text(f"There is no job {child}")
    expect(page.get_by_role("link", name="Edit it instead")).to_be_visible()


def test_choosing_the_executor_keeps_the_yaml(admin_page: Page, console: Console) -> None:
    page = admin_page
    page.goto(f"{console.url}/jobs/new")
    page.get_by_role("button", name="YAML", exact=True).click()
    text = page.get_by_label("The job as YAML")
    text.fill("# mine\nname: yaml-made\nhandler: send\n")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Executor", exact=True).select_option("billing")
    page.get_by_role("button", name="Form", exact=True).click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("yaml-made")
    assert not [url for url in asked if "/jobs/handlers" in url]

    # In the form, the same choice brings the handlers of that executor.
    page.get_by_label("Executor", exact=True).select_option("crm")
    expect(page.locator("#handler-field")).to_contain_text("crm.")


def test_the_form_and_yaml_are_one(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page = admin_page
    page_errors.expected.append("422")
    asked: list[str] = []

    def leave(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", leave)
    page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:billing']}")
    page.get_by_label("Name", exact=True).fill("yaml-made")
    page.get_by_role("button", name="billing.invoice-close").click()
    page.get_by_role("button", name="YAML", exact=True).click()
    text = page.get_by_label("The job as YAML")
    expect(text).to_have_value(re.compile("^name: yaml-made\nhandler: billing.invoice-close\n"))
    text.fill(f"# why\n{text.input_value()}retrys: 3\n")
    page.get_by_role("button", name="Form", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("did you mean “retries”?")
    page.get_by_role("button", name=re.compile("^Line ")).click()
    expect(text).to_be_focused()
    assert page.evaluate("() => getSelection().toString()") == "retrys: 3"
    text.fill(text.input_value().replace("retrys: 3", "timeout_seconds: 60"))
    page.get_by_role("button", name="Form", exact=True).click()
    expect(page.locator("#holds-wrong")).to_have_text("timeout 1 min · no retries")
    unfold(page, "wrong")
    page.get_by_label("Retries").fill("2")
    page.get_by_label("Retries").press("Tab")
    expect(page.locator("#holds-wrong")).to_have_text("timeout 1 min · 2 retries")

    page.goto(f"{console.url}/jobs")  # what is typed is not left without a question
    assert asked == ["beforeunload"]
    page.go_back()
    page.get_by_label("Name", exact=True).fill("yaml-made")
    page.get_by_role("button", name="billing.invoice-close").click()
    page.get_by_role("button", name="Add and run").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("yaml-made")
    expect(page).to_have_url(re.compile(r"/runs/\d+$"))
    assert asked == ["beforeunload"]


def test_a_viewer_sees_no_way_to_change_a_job(
    page: Page, context: BrowserContext, console: Console
) -> None:
    console.open_as(context, "viewer")
    job = f"{console.url}/jobs/{console.ids['job:stock-sync']}"
    for tab in ("", "/runs", "/config", "/history"):
        page.goto(job + tab)
        main = page.get_by_role("main")
        expect(main.get_by_role("heading", level=1)).to_have_text("stock-sync")
        for name in ("Edit", "Delete", "Duplicate", "Run now", "Roll back"):
            expect(main.get_by_role("link", name=name)).to_have_count(0)


def test_a_refusal_in_plain_words_leaves_the_form_as_it_was(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page = admin_page
    page_errors.expected += ["422", "htmx:responseError"]
    page.goto(f"{console.url}/jobs/new")
    page.get_by_label("Name", exact=True).fill("half-typed")
    page.route(
        "**/jobs/new",
        lambda route: route.fulfill(status=422, content_type="text/plain", body="Not like this."),
    )
    page.get_by_role("button", name="Add the job").click()
    expect(page.locator(".toast")).to_contain_text("Not like this.")
    expect(page.get_by_label("Name", exact=True)).to_have_value("half-typed")
