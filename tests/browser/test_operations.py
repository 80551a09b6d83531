"""Rules of jobs, many runs at once, shards, nodes and pauses: what people do with them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console, stop_time, unfold


def facts(page: Page) -> Locator:
    return page.get_by_role("region", name="Schedule").locator(".facts")


def new_job(page: Page, console: Console, name: str) -> None:
    page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:billing']}")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="billing.invoice-close").click()


# --- the job form ------------------------------------------------------------------------------


def test_a_job_gets_rules_for_overlaps_and_children(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("422")
    new_job(admin_page, console, "ledger-close")
    unfold(admin_page, "overlap", "wrong", "after")
    expect(admin_page.get_by_label("Runs at a time")).to_be_hidden()
    admin_page.get_by_label("One after the other").check()
    admin_page.get_by_label("Runs at a time").fill("2")
    admin_page.get_by_label("Most that may wait").fill("many")
    admin_page.get_by_label("Let it finish").check()
    admin_page.get_by_label("Keep its place for at most").fill("1")
    admin_page.locator("[name=hold_lost_unit]").select_option("h")
    admin_page.get_by_label("Start within").fill("15")
    admin_page.get_by_label("Retries").fill("3")
    admin_page.get_by_label("Extra wait by chance").fill("12.5")
    admin_page.get_by_label("ran into its timeout").uncheck()
    children = admin_page.locator("input[name=child_job]:visible")
    children.first.fill("nothing-of-this-name")
    admin_page.get_by_role("button", name="Another job").click()
    expect(children).to_have_count(2)
    expect(children.last).to_be_focused()
    admin_page.keyboard.type("log-ro")
    suggested = admin_page.locator("#child-jobs option")
    expect(suggested).to_have_count(1)
    expect(suggested).to_have_attribute("value", "infra / log-rotate")
    children.last.fill("infra / log-rotate")
    admin_page.get_by_label("After which end").last.select_option(label="when it failed")
    admin_page.get_by_role("button", name="Add the job").click()

    expect(admin_page.locator("#f-max-waiting-problem")).to_contain_text("must be a whole number")
    expect(admin_page.locator("#f-child-0-problem")).to_contain_text("no job of this name")
    expect(children.first).to_have_value("nothing-of-this-name")
    expect(children.last).to_have_value("infra / log-rotate")
    expect(admin_page.get_by_label("ran into its timeout")).not_to_be_checked()
    admin_page.get_by_label("Most that may wait").fill("50")
    admin_page.get_by_role("button", name="Remove this job").first.click()
    admin_page.get_by_role("button", name="Add the job").click()

    expect(facts(admin_page)).to_contain_text("One after the other · 2 at a time · at most 50")
    expect(facts(admin_page)).to_contain_text("Let it finish; its place is kept for 1 h at most")
    expect(facts(admin_page)).to_contain_text("15 min")
    expect(facts(admin_page)).to_contain_text("(+ up to 12.5 % by chance)")
    expect(facts(admin_page)).to_contain_text("after: Failed, Lost")
    expect(facts(admin_page)).to_contain_text("log-rotate when it failed")
    admin_page.get_by_role("link", name="Edit").click()
    expect(admin_page.locator("#holds-overlap")).to_have_text(
        "One after the other · 2 at a time · at most 50 waiting"
    )
    unfold(admin_page, "overlap", "after")
    expect(admin_page.get_by_label("Most that may wait")).to_have_value("50")
    expect(children.first).to_have_value("infra / log-rotate")
    admin_page.get_by_label("Run side by side").check()
    admin_page.get_by_role("button", name="Save changes").click()
    expect(facts(admin_page)).to_contain_text("Run side by side")
    expect(facts(admin_page)).not_to_contain_text("cut off")


def test_a_circle_of_children_is_refused_at_its_row(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("422")
    admin_page.goto(f"{console.url}/jobs/{console.ids['job:log-rotate']}/edit")
    unfold(admin_page, "after")
    admin_page.locator("input[name=child_job]:visible").fill("warm-caches")
    admin_page.get_by_role("button", name="Save changes").click()

    expect(admin_page.locator("#f-child-0-problem")).to_contain_text("in a circle")
    expect(admin_page.locator("input[name=child_job]:visible")).to_have_value("warm-caches")


def test_fixed_delay_shards_and_missed_fires_are_typed_in(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("422")
    new_job(admin_page, console, "poll-bank")
    admin_page.get_by_role("button", name=re.compile("^Fixed delay")).click()
    admin_page.get_by_label("Pause after each run").fill("0")
    preview = admin_page.locator("#trigger0-preview")
    expect(preview.locator(".error-text")).to_be_visible()
    admin_page.get_by_label("Pause after each run").fill("90")
    admin_page.locator("[name='trigger0.pause_unit']").select_option("s")
    expect(preview).to_contain_text("90 s after each run has ended")
    expect(admin_page.get_by_label("Missed when later than")).to_be_hidden()
    unfold(admin_page, "where")
    admin_page.get_by_label(re.compile(r"^\s*Shards")).check()
    admin_page.get_by_role("button", name="Add the job").click()
    expect(admin_page.locator("#f-shards-problem")).to_contain_text("number of shards")
    admin_page.get_by_label("Number of shards").fill("16")
    admin_page.get_by_role("button", name="Add the job").click()
    expect(facts(admin_page)).to_contain_text("Shards: 16 shards")
    expect(facts(admin_page)).to_contain_text("90 s after each run has ended")

    admin_page.get_by_role("link", name="Edit").click()
    admin_page.get_by_label("Cron", exact=True).check()
    admin_page.get_by_label("Cron expression").fill("0 4 * * *")
    admin_page.locator("#trigger0-more summary").click()
    expect(admin_page.get_by_label("At most so many missed fires")).to_be_hidden()
    admin_page.get_by_label(re.compile(r"^\s*Run each")).check()
    admin_page.get_by_label("At most so many missed fires").fill("9")
    admin_page.get_by_label("Missed when later than").fill("120")
    admin_page.get_by_role("button", name="Save changes").click()
    expect(facts(admin_page)).to_contain_text("Run each · the latest 9 · after 2 min")


def test_editing_leaves_rules_that_were_not_touched(admin_page: Page, console: Console) -> None:
    for name in ("stock-sync", "partition-sweep", "warm-caches"):
        admin_page.goto(f"{console.url}/jobs/{console.ids[f'job:{name}']}")
        before = facts(admin_page).inner_text()
        admin_page.get_by_role("link", name="Edit").click()
        admin_page.get_by_role("button", name="Save changes").click()
        expect(admin_page.locator(".toast")).to_contain_text("The job was saved.")
        # A fixed delay counts from when it is saved, in this stopped time from the same instant.
        assert facts(admin_page).inner_text() == before


def test_one_of_two_triggers_is_paused(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/jobs/{console.ids['job:partition-sweep']}")
    admin_page.get_by_role("button", name="Pause: Every hour at minute 25").click()
    expect(admin_page.locator(".toast")).to_contain_text("The trigger is paused.")
    expect(admin_page.locator(".trigger.paused")).to_have_count(1)
    admin_page.get_by_role("button", name="Resume: Every hour at minute 25").click()
    expect(admin_page.locator(".trigger.paused")).to_have_count(0)


# --- many runs ---------------------------------------------------------------------------------


def test_a_selection_survives_live_updates_and_is_cancelled(
    admin_page: Page, console: Console
) -> None:
    admin_page.goto(f"{console.url}/runs?state=active")
    boxes = admin_page.locator("tbody input[type=checkbox]")
    selected = admin_page.locator("tr.selected")
    bar = admin_page.locator("#bulk")
    expect(bar).to_be_hidden()
    boxes.nth(0).click()
    boxes.nth(2).click(modifiers=["Shift"])
    expect(selected).to_have_count(3)
    with admin_page.expect_response(lambda answer: answer.request.headers.get("x-block") == "rows"):
        admin_page.evaluate("() => document.body.dispatchEvent(new CustomEvent('live:runs'))")
    expect(selected).to_have_count(3)
    expect(bar).to_contain_text("3 selected")
    bar.get_by_role("button", name="Clear").click()
    expect(bar).to_be_hidden()

    run = console.ids["run:waiting"]
    admin_page.get_by_role("checkbox", name=f"Select run #{run}").check()
    bar.get_by_role("button", name="Cancel", exact=True).click()
    dialog = admin_page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Cancel 1 run?")
    dialog.get_by_role("button", name="Cancel 1 run").click()
    expect(dialog).to_contain_text("1 run is cancelled or being stopped.")
    dialog.get_by_role("link", name="Close").click()
    expect(bar).to_be_hidden()
    expect(admin_page.locator(f"#run-{run}")).to_have_count(0)


def test_what_cannot_be_cancelled_is_counted_by_reason(admin_page: Page, console: Console) -> None:
    runs = [console.ids["run:failed"], console.ids["run:expired"], console.ids["run:parked"]]
    named = "&".join(f"run={run}" for run in runs)
    admin_page.goto(f"{console.url}/runs/bulk?do=cancel&{named}")
    admin_page.get_by_role("button", name="Cancel 3 runs").click()

    expect(admin_page.get_by_role("main")).to_contain_text("1 run is cancelled")
    expect(admin_page.get_by_role("main")).to_contain_text("2 had already ended")


def test_all_that_match_are_retried_once_in_steps(admin_page: Page, console: Console) -> None:
    address = f"{console.url}/runs?state=failed_any&executor={console.ids['executor:billing']}"
    job = f"{console.url}/runs?job={console.ids['job:payment-reconcile']}&state=queued"
    admin_page.goto(address)
    admin_page.locator("[data-select-all]").check()
    admin_page.get_by_label("All that match, on every page").check()
    admin_page.locator("#bulk").get_by_role("button", name="Retry").click()
    dialog = admin_page.get_by_role("dialog")
    expect(dialog).to_contain_text("billing")
    asked = re.fullmatch(r"Retry (\d+) runs\?", dialog.get_by_role("heading").inner_text())
    assert asked is not None
    fields = dialog.locator("form").evaluate(
        "form => new URLSearchParams(new FormData(form)).toString()"
    )
    dialog.get_by_role("button", name=f"Retry {asked[1]} runs").click()
    expect(dialog.get_by_role("heading")).to_have_text("Done")
    told = re.search(r"([\d,]+) new runs were added", dialog.inner_text())
    assert told is not None
    added = int(told[1].replace(",", ""))
    assert added > 20
    assert added == int(asked[1])

    def count() -> int:
        admin_page.goto(job)
        total = admin_page.locator("tbody tr").count()
        while admin_page.get_by_role("link", name="Older").count():
            admin_page.get_by_role("link", name="Older").click()
            expect(admin_page.get_by_role("link", name="Newest")).to_be_visible()
            total += admin_page.locator("tbody tr").count()
        return total

    assert count() == added
    # The same request again, as a double click would send it: the same runs, and no others.
    again = admin_page.evaluate(
        """async (fields) => (await fetch('/runs/bulk', {method: 'POST', body: fields, headers:
          {'Content-Type': 'application/x-www-form-urlencoded'}})).status""",
        fields,
    )
    assert again == 200
    assert count() == added


def test_bulk_actions_work_without_script(page_without_script: Page, console: Console) -> None:
    page = page_without_script
    page.goto(f"{console.url}/runs?state=succeeded")
    for row in page.locator("tbody tr", has_not_text="Step ").all()[:2]:
        row.locator("input[type=checkbox]").check()
    page.locator("#bulk").get_by_role("button", name="Retry").click()
    page.get_by_role("button", name="Retry 2 runs").click()
    expect(page.get_by_role("main")).to_contain_text("2 new runs were added.")
    page.get_by_role("link", name="Close").click()
    expect(page).to_have_url(re.compile(r"/runs\?q=state%3Asucceeded$"))


# --- one run -----------------------------------------------------------------------------------


def test_shards_are_seen_opened_and_retried(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/runs/{console.ids['run:fire']}")
    shards = admin_page.get_by_role("region", name="Shards")
    expect(shards).to_contain_text("7 of 12 ended")
    expect(shards.locator("a.shard")).to_have_count(12)
    shards.get_by_role("link", name=re.compile("5 Failed")).click()
    expect(admin_page.get_by_text("partition 5 is locked")).to_be_visible()
    admin_page.get_by_role("region", name="Details").get_by_role(
        "link", name=f"#{console.ids['run:fire']}"
    ).click()
    expect(shards).to_be_visible()

    admin_page.goto(f"{console.url}/runs/{console.ids['run:fire-failed']}")
    child = admin_page.get_by_role("region", name="Child runs")
    expect(child).to_contain_text("log-rotate")
    shards.get_by_role("button", name="Retry 1 failed shard").click()
    expect(admin_page).not_to_have_url(re.compile(f"/{console.ids['run:fire-failed']}$"))
    expect(shards.locator("a.shard")).to_have_count(1)
    child_link = f"{console.url}/runs/{console.ids['run:fire-failed']}"
    admin_page.goto(child_link)
    child.get_by_role("link").click()
    expect(admin_page.get_by_role("region", name="Details")).to_contain_text(
        f"Parent #{console.ids['run:fire-failed']}"
    )


def test_a_run_that_nothing_stops_is_released(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/runs/{console.ids['run:still-running']}")
    expect(admin_page.locator(".page-head")).to_contain_text("Still running on its node")
    admin_page.get_by_role("link", name="Release").click()
    admin_page.get_by_role("button", name="Release 1 run").click()
    expect(admin_page.locator(".page-head [data-state=cancelled]")).to_be_visible()
    expect(admin_page.locator("#run-progress")).to_contain_text("may still be running on its node")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("discarded", "An earlier run was still going on"),
        ("covered", "A newer run of the job took its place"),
        ("too_many_waiting", "As many runs as its job allows"),
        ("expired", "could not start within the time"),
        ("paused", "its executor, or everything, was paused"),
        ("by_handler", "nothing new since 13:10"),
        ("misfire", "7 fires were missed from Nov 20, 2026, 12:41:26"),
    ],
)
def test_a_skipped_run_says_why(admin_page: Page, console: Console, name: str, words: str) -> None:
    admin_page.goto(f"{console.url}/runs/{console.ids[f'run:{name}']}")
    expect(admin_page.locator("#run-progress")).to_contain_text(words)


def test_a_late_result_is_shown_and_not_counted(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/runs/{console.ids['run:failed']}")
    expect(admin_page.get_by_role("region", name="Attempts")).to_contain_text(
        "A success came late, 12 s after the next attempt began; it is not counted."
    )
    expect(admin_page.locator(".page-head [data-state=failed]")).to_be_visible()


# --- nodes, executors, everything --------------------------------------------------------------


def test_a_node_is_cordoned_drained_and_resumed(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("422")
    admin_page.goto(f"{console.url}/executors/{console.ids['executor:billing']}")
    row = admin_page.locator("tr", has_text="billing-a1")
    row.get_by_role("button", name="Cordon: billing-a1").click()
    expect(row).to_contain_text("Cordoned")
    row.get_by_role("button", name="Drain: billing-a1").click()
    expect(row).to_contain_text(re.compile(r"Draining: \d+ run|Drained: safe to stop"))
    row.get_by_role("button", name="Resume: billing-a1").click()
    expect(row).to_contain_text("Ready")

    row.get_by_role("link", name="Change the slots of billing-a1").click()
    dialog = admin_page.get_by_role("dialog")
    dialog.get_by_label("Runs at a time").fill("0")
    dialog.get_by_role("button", name="Change the slots").click()
    expect(dialog.locator(".error-text")).to_contain_text("1 and 10,000")
    dialog.get_by_label("Runs at a time").fill("24")
    dialog.get_by_role("button", name="Change the slots").click()
    expect(dialog).to_be_hidden()
    expect(row).to_contain_text("/ 24")


def test_a_paused_executor_is_seen_at_its_jobs(admin_page: Page, console: Console) -> None:
    executor = f"{console.url}/executors/{console.ids['executor:crm']}"
    admin_page.goto(executor)
    admin_page.get_by_role("button", name="Pause", exact=True).click()
    expect(admin_page.locator(".notice")).to_contain_text("This executor is paused since")
    admin_page.goto(f"{console.url}/jobs/{console.ids['job:lead-scoring']}")
    expect(admin_page.locator(".notice")).to_contain_text("Its executor is paused")
    admin_page.goto(console.url)
    expect(admin_page.get_by_role("main")).to_contain_text("1 executor is paused")
    admin_page.goto(executor)
    admin_page.get_by_role("button", name="Resume", exact=True).click()
    expect(admin_page.locator(".notice")).to_have_count(0)


def test_a_pause_of_everything_is_seen_on_every_page(
    admin_page: Page, context: BrowserContext, console: Console
) -> None:
    other = context.new_page()
    stop_time(other)
    other.goto(f"{console.url}/executors")
    expect(other.locator("[data-live-state]")).to_have_attribute("data-state", "on")
    admin_page.goto(console.url)
    admin_page.get_by_role("link", name="Pause everything").click()
    admin_page.get_by_role("button", name="Pause everything").click()
    banner = admin_page.locator("#system-state .notice")
    expect(banner).to_contain_text("Everything is paused since")
    expect(admin_page.get_by_role("link", name="Pause everything")).to_have_count(0)
    expect(other.locator("#system-state .notice")).to_be_visible()  # without a reload
    for path in ("/jobs", f"/runs/{console.ids['run:failed']}", "/admins"):
        admin_page.goto(console.url + path)
        expect(banner).to_be_visible()
    admin_page.get_by_role("button", name="Resume everything").click()
    expect(banner).to_have_count(0)
    other.close()


def test_admins_say_how_they_do(admin_page: Page, console: Console) -> None:
    admin_page.goto(console.url)
    admin_page.get_by_role("link", name=re.compile("admin-1")).click()
    expect(admin_page.get_by_role("region", name="admin-2")).to_contain_text(
        "3.2 s ahead of the database’s"
    )
    failing = admin_page.get_by_role("region", name="admin-3")
    expect(failing.locator("tr", has_text="Recording results")).to_contain_text("Failing")
    expect(failing).to_contain_text("1,840")


# --- dialogs -----------------------------------------------------------------------------------


def cancel_elsewhere(page: Page, console: Console, run_id: int) -> None:
    """As another operator would, in a page of their own."""
    page.goto(f"{console.url}/runs/{run_id}/cancel")
    page.get_by_role("button", name="Cancel 1 run").click()
    expect(page.locator(".toast")).to_be_visible()


def test_a_dialog_closes_when_its_run_has_ended(admin_page: Page, console: Console) -> None:
    page = admin_page
    page.goto(f"{console.url}/jobs/{console.ids['job:log-rotate']}")
    page.get_by_role("link", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    expect(page).to_have_url(re.compile(r"/runs/\d+$"))
    run_id = int(page.url.rpartition("/")[2])
    page.get_by_role("link", name="Cancel", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()

    other = page.context.new_page()
    cancel_elsewhere(other, console, run_id)
    other.close()

    expect(dialog).to_be_hidden()
    expect(page.locator(".toast.bad")).to_have_text("This run has already ended.")
    expect(page.locator(".page-head")).to_contain_text("Cancelled")


def test_what_goes_wrong_in_a_dialog_is_told_in_it(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected += ["503", "404", "htmx:sendError", "ERR_FAILED"]
    page = admin_page
    job = f"{console.url}/jobs/{console.ids['job:log-rotate']}"
    page.goto(job)
    page.get_by_role("link", name="Delete").click()
    dialog = page.get_by_role("dialog")
    address = "**/delete"
    page.route(address, lambda route: route.fulfill(status=503, body="Try again in a moment."))
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_have_text("Try again in a moment.")
    page.unroute(address)
    page.route(address, lambda route: route.abort())
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The admin does not answer")
    expect(page.locator(".toast")).to_have_count(0)
    page.unroute(address)

    # Gone meanwhile, which no event of the stopped console told.
    gone = {"status": 404, "headers": {"X-Over": "yes"}, "body": "Gone."}
    page.route(address, lambda route: route.fulfill(**gone))
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_be_hidden()
    expect(page.locator(".toast.bad")).to_have_text("Gone.")
