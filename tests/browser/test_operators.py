"""People who operate it: what needs attention, the filter of runs, purging, nodes, tokens, API."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console


def address_of(page: Page) -> dict[str, str]:
    """The filter as the address says it."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def test_what_needs_attention_is_seen_and_retried(admin_page: Page, console: Console) -> None:
    page = admin_page
    page.goto(console.url)
    panel = page.get_by_role("region", name="Needs attention")
    failing = panel.get_by_role("listitem").filter(has_text="payment-reconcile")
    expect(failing).to_contain_text("failures in a row")
    expect(panel).to_contain_text("“Recording results” fails")
    panel.locator("#more-concerns summary").click()
    panel.get_by_role("link", name="Open: admin-3").click()
    expect(page).to_have_url(re.compile(r"/admins#h-admin-3$"))
    page.goto(console.url)
    failing.get_by_role("button", name=re.compile("^Retry run #")).click()
    expect(page).to_have_url(re.compile(r"/runs/\d+$"))
    expect(page.get_by_role("region", name="Details")).to_contain_text("Retry")


def test_the_filter_of_runs_is_an_address_for_everybody(admin_page: Page, console: Console) -> None:
    page, ids = admin_page, console.ids
    box = page.get_by_label("Filter runs")
    # An address of before says the same, and goes on as what people read.
    page.goto(f"{console.url}/runs?state=succeeded&executor={ids['executor:ml']}&node=8")
    expect(box).to_have_value("state:succeeded executor:ml node:#8")
    assert address_of(page) == {"q": "state:succeeded executor:ml node:#8"}
    expect(page.locator("tbody tr").first).to_contain_text("ml-b1")
    expect(page.locator("tbody")).not_to_contain_text("ml-a1")

    box.fill("executor:ml node:ml-a1 origin:schedule")
    box.press("Enter")
    expect(page.locator("tbody")).not_to_contain_text("ml-b1")
    expect(page.locator("tbody tr").first).to_contain_text("ml-a1")
    page.get_by_role("link", name="Succeeded").first.click()
    expect(box).to_have_value("executor:ml node:ml-a1 origin:schedule state:succeeded")
    page.go_back()
    expect(box).to_have_value("executor:ml node:ml-a1 origin:schedule")

    box.fill("lead-scor")  # words are part of a job's name, and stay as they are typed
    box.press("Enter")
    expect(page).to_have_url(re.compile(r"\?q=lead-scor$"))
    expect(page.locator("tbody tr").first).to_contain_text("lead-scoring")
    box.fill("job:lead-scoring")  # a job that is named is said in full
    box.press("Enter")
    expect(page).to_have_url(re.compile("crm"))
    page.get_by_text("Period", exact=True).click()
    page.get_by_label("Fired from").fill("2026-11-20T10:00")
    page.locator(".period").get_by_role("button", name="Filter").click()
    expect(box).to_have_value('job:"crm / lead-scoring" from:2026-11-20T10:00+01:00')
    expect(page.locator("tbody tr")).to_have_count(4)
    page.reload()
    expect(page.get_by_label("Fired from")).to_have_value("2026-11-20T10:00")

    page.goto(f"{console.url}/runs")
    box.fill("job:nothing")
    box.press("Enter")
    expect(page.locator("#filter-problems")).to_contain_text("There is no job:nothing here.")
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("tbody tr")).not_to_have_count(0)


def test_runs_that_wait_say_for_what_and_since_when(admin_page: Page, console: Console) -> None:
    page, ids = admin_page, console.ids
    page.goto(f"{console.url}/runs?state=queued")
    row = page.locator(f"#run-{ids['run:no-node']}")
    expect(row).to_contain_text("waiting for a node of archive for 12 s")
    expect(row).to_contain_text("By hand · ana")
    parked = page.locator(f"#run-{ids['run:parked']}")
    expect(parked).to_contain_text(f"waiting for run #{ids['run:still-running']} for 3m 00s")
    page.goto(f"{console.url}/runs/{ids['run:parked']}")
    notice = page.locator("#run-progress .notice")
    expect(notice).to_contain_text(f"It waits for run #{ids['run:still-running']}.")
    expect(notice).to_contain_text("Waiting since 13:28:26, for 3m 00s.")
    notice.get_by_role("link").click()
    expect(page).to_have_url(f"{console.url}/runs/{ids['run:still-running']}")
    page.goto(f"{console.url}/executors")
    archive = page.locator(f"#executor-{ids['executor:archive']}")
    expect(archive).to_contain_text(re.compile(r"none.*1\s+for\s+12 s", re.DOTALL))
    archive.get_by_role("link", name="archive").click()
    expect(page.locator(".notice")).to_contain_text("1 run waits for a node.")


def test_runs_are_purged_after_their_number_was_told(admin_page: Page, console: Console) -> None:
    page = admin_page
    page.goto(f"{console.url}/runs?job={console.ids['job:disk-usage-probe']}")
    page.get_by_role("link", name="Purge").click()
    expect(page.get_by_label("Only of this job")).to_have_value("infra / disk-usage-probe")
    found = page.locator("#purge-found")
    expect(found).to_contain_text("No run would be deleted.")
    page.get_by_label("Executor").select_option(label="billing")
    expect(found).to_contain_text("This is a job of another executor than the chosen one.")
    expect(found.get_by_role("button")).to_have_count(0)
    page.get_by_label("Executor").select_option(label="infra")
    expect(found).to_contain_text("No run would be deleted.")
    page.get_by_label("Newest runs of each job that stay").focus()
    expect(page.get_by_label("All but the newest of each job")).not_to_be_checked()
    page.get_by_label("Newest runs of each job that stay").fill("5")
    expect(page.get_by_label("All but the newest of each job")).to_be_checked()
    expect(found).to_contain_text(re.compile(r"\d\d\d runs would be deleted"))
    found.get_by_role("button", name=re.compile("^Delete")).click()
    expect(page.locator("#purge")).to_contain_text(re.compile(r"\d\d\d runs were deleted"))
    expect(page.get_by_role("link", name="Purge more")).to_be_visible()
    page.goto(f"{console.url}/runs?job={console.ids['job:disk-usage-probe']}")
    expect(page.locator("tbody tr")).to_have_count(6)  # and the one that is running


def test_a_node_is_operated_on_its_own_page(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page = admin_page
    page_errors.expected.append("422")
    page.goto(f"{console.url}/executors/{console.ids['executor:ml']}")
    row = page.locator("tr", has_text="ml-a1")
    expect(row).to_contain_text("gpu=a100")
    expect(row).to_contain_text("3s ago")
    row.get_by_role("link", name="ml-a1", exact=True).click()
    page.get_by_role("link", name="Change the weight of ml-a1").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Weight").fill("0")
    dialog.get_by_role("button", name="Change the weight").click()
    expect(dialog.locator(".error-text")).to_contain_text("1 and 1,000")
    dialog.get_by_label("Weight").fill("7")
    dialog.get_by_role("button", name="Change the weight").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("region", name="Details")).to_contain_text("7 set by an operator")
    page.get_by_role("button", name="Cordon: ml-a1").click()
    expect(page.locator(".page-head")).to_contain_text("Cordoned")
    page.get_by_role("button", name="Resume: ml-a1").click()
    expect(page.locator(".page-head")).to_contain_text("Ready")


def test_a_token_is_rotated_with_an_overlap_and_the_old_one_revoked(
    admin_page: Page, console: Console
) -> None:
    page = admin_page
    executor = f"{console.url}/executors/{console.ids['executor:crm']}"
    page.goto(executor)
    page.get_by_role("link", name="Rotate token").click()
    page.get_by_role("dialog").get_by_label(re.compile(r"^\s*For one hour")).check()
    page.get_by_role("dialog").get_by_role("button", name="Make a new token").click()
    expect(page.locator("#token")).to_contain_text("twx_")
    expect(page.get_by_role("main")).to_contain_text("The former token works as well until")
    page.goto(executor)
    notice = page.locator(".notice")
    expect(notice).to_contain_text("for another 1h 00m")
    notice.get_by_role("link", name="Revoke it now").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke it now").click()
    expect(notice).to_have_count(0)


def test_an_executor_goes_with_its_jobs_only_by_its_name(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page = admin_page
    page_errors.expected += ["422", "409"]
    page.goto(f"{console.url}/executors/{console.ids['executor:warehouse']}")
    page.get_by_role("link", name="Delete").click()
    dialog = page.get_by_role("dialog")
    delete = dialog.get_by_role("button", name=re.compile(r"^Delete the executor and \d+ jobs"))
    delete.click()
    expect(dialog.locator(".notice.bad")).to_contain_text("still has jobs")
    dialog.get_by_label(re.compile(r"^\s*Delete its \d+ jobs as well")).check()
    dialog.get_by_label("Type its name to confirm").fill("wharehouse")
    delete.click()
    expect(dialog.locator("#d-name-problem")).to_contain_text("type “warehouse”")
    dialog.get_by_label("Type its name to confirm").fill("warehouse")
    delete.click()
    expect(page).to_have_url(f"{console.url}/executors")
    expect(page.locator("tbody")).not_to_contain_text("warehouse")
    page.goto(f"{console.url}/jobs?q=stock-sync")
    expect(page.get_by_role("heading", name="No job matches")).to_be_visible()


def test_filtering_and_purging_work_without_script(
    page_without_script: Page, console: Console
) -> None:
    page = page_without_script
    page.goto(f"{console.url}/runs")
    page.get_by_label("Filter runs").fill("job:log-rotate")
    page.locator("#filter").get_by_role("button", name="Filter").click()
    expect(page.get_by_label("Filter runs")).to_have_value('job:"infra / log-rotate"')
    page.get_by_role("link", name="Purge").click()
    page.get_by_label("Age", exact=True).fill("2")
    page.get_by_label("Unit").select_option(label="hours")
    page.get_by_role("button", name="See how many").click()
    page.get_by_role("button", name=re.compile(r"^Delete \d+ runs")).click()
    expect(page.locator("#purge")).to_contain_text("runs were deleted")


def test_an_endpoint_is_tried(admin_page: Page, console: Console, page_errors: PageErrors) -> None:
    page = admin_page
    page_errors.expected.append("404 (Not Found)")
    page.goto(f"{console.url}/about")
    page.get_by_role("link", name="API reference").click()
    page.get_by_role("link", name="GET /api/v1/jobs", exact=True).click()
    page.get_by_label("limit").fill("1")
    page.get_by_role("button", name="Send").click()
    answer = page.get_by_role("status").filter(has=page.locator("#api-status"))
    expect(answer).to_contain_text("200 OK")
    expect(answer).to_contain_text('"next"')

    page.goto(f"{console.url}/api-reference/stream_events")  # which does not end by itself
    page.get_by_role("button", name="Send").click()
    expect(answer).to_contain_text("the first ten seconds of a stream")
    expect(answer).to_contain_text("retry: 2000")

    page.goto(f"{console.url}/api-reference/pause_job")  # needs the token of the page
    page.get_by_label("job_id").fill("999999")
    page.get_by_role("button", name="Send").click()
    expect(answer).to_contain_text("404")
    expect(answer).to_contain_text("not_found")
