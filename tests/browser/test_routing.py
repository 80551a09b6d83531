"""Where runs go: chosen in the job form, for one run, told on its page; and what a job keeps."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console, unfold


def new_job(page: Page, console: Console, name: str) -> None:
    page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:ml']}")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="ml.vector-refresh").click()


def test_a_job_is_routed_by_names_and_labels(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page = admin_page
    page_errors.expected.append("422")
    new_job(page, console, "embed-all")
    unfold(page, "where")
    now = page.locator("#routing-now")
    expect(now).to_contain_text("2 of 2 live nodes match now: ml-a1, ml-b1")
    nodes = page.get_by_label("Nodes", exact=True)
    expect(nodes).to_be_hidden()
    expect(page.get_by_label("Parameter that decides")).to_be_hidden()

    page.get_by_label(re.compile(r"^\s*Failover")).check()
    with page.expect_request("**/jobs/nodes?*") as asked:
        nodes.fill("ml-b*\nml-a1")
    assert "x-automatic" not in asked.value.headers
    expect(now).to_contain_text("2 of 2 live nodes match now, in this order: ml-b1 → ml-a1")
    now.get_by_role("button", name="zone=us").click()
    expect(now).to_contain_text("1 of 2 live nodes match now, in this order: ml-b1")
    expect(now).to_contain_text("Cordoned or shutting down: ml-b1")
    # What follows the nodes is no sign that somebody is there.
    with page.expect_request("**/jobs/nodes?*") as asked:
        page.evaluate("document.body.dispatchEvent(new CustomEvent('live:nodes-calm'))")
    assert asked.value.headers["x-automatic"] == "yes"

    selector = page.get_by_label("Only nodes with these labels")
    selector.fill("zone=us gpu")
    expect(now).to_contain_text("A comma is expected before “gpu”")
    page.get_by_role("button", name="Add the job").click()
    expect(page.locator("#f-selector-problem")).to_contain_text("character 9")
    expect(page.locator(".marked-text mark").first).to_have_text("gpu")
    expect(nodes).to_have_value("ml-b*\nml-a1")
    selector.fill("zone in (eu,us)")
    page.get_by_role("button", name="Add the job").click()
    facts = page.get_by_role("region", name="Schedule")
    expect(facts).to_contain_text("Failover")
    expect(facts).to_contain_text("in this order: ml-b* → ml-a1")
    expect(facts).to_contain_text("with labels zone in (eu,us)")

    # What belongs to a strategy that is not chosen any more is left out.
    page.get_by_role("link", name="Edit").click()
    unfold(page, "where")
    page.get_by_label(re.compile(r"^\s*Consistent hash")).check()
    expect(nodes).to_be_hidden()
    page.get_by_label("Parameter that decides").fill("customer")
    page.get_by_role("button", name="Save changes").click()
    expect(facts).to_contain_text("Consistent hash, by the parameter “customer”")
    expect(facts).not_to_contain_text("ml-b*")


def test_a_run_gets_a_node_and_a_delay_of_its_own(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page = admin_page
    page_errors.expected.append("422")
    page.goto(f"{console.url}/jobs/{console.ids['job:churn-scoring']}")
    page.get_by_role("link", name="Run now").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("laid over the job’s parameters")
    dialog.get_by_label("Parameters").fill('{"date": "2026-11-21"}')
    dialog.get_by_label("Node").select_option(label="ml-a1 — 5 of 6 slots in use")
    dialog.get_by_label("Start in").fill("40")
    dialog.locator("[name=delay_unit]").select_option("d")
    dialog.get_by_role("button", name="Run now").click()
    expect(dialog.locator("#d-delay-problem")).to_contain_text("2,592,000")
    expect(dialog.get_by_label("Parameters")).to_have_value('{"date": "2026-11-21"}')
    dialog.locator("[name=delay_unit]").select_option("m")
    dialog.get_by_role("button", name="Run now").click()

    expect(page).to_have_url(re.compile(r"/runs/\d+$"))
    details = page.get_by_role("region", name="Details")
    expect(details).to_contain_text("By hand · admin")
    expect(details).to_contain_text("ml-a1 chosen for this run")
    expect(page.locator("#run-progress")).to_contain_text("It is due at 14:11:26.")
    parameters = page.get_by_role("region", name="Parameters")
    expect(parameters).to_contain_text('"date": "2026-11-21"')
    expect(parameters).to_contain_text('"shards": 8')  # the job's, which was left out


def test_a_run_says_why_its_node_was_chosen(admin_page: Page, console: Console) -> None:
    page = admin_page
    page.goto(f"{console.url}/runs/{console.ids['run:reasoned']}")
    expect(page.locator(".why")).to_have_text(
        "Least busy: 3 of 16 slots used. ml-b1 was cordoned. ml-d1 had no free slot."
        " Others passed over: 2."
    )
    expect(page.get_by_role("region", name="Attempts")).to_contain_text("ml-c1 · Weighted:")
    expect(page.get_by_role("region", name="Checkpoint")).to_contain_text("left by attempt 1")
    page.get_by_role("region", name="Details").get_by_role("link", name="ml-a1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("ml-a1")
    expect(page.get_by_role("region", name="Runs now")).to_contain_text("vector-refresh")


def test_a_jobs_state_is_set_and_cleared(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page = admin_page
    page_errors.expected.append("422")
    page.goto(f"{console.url}/jobs/{console.ids['job:stock-sync']}")
    state = page.get_by_role("region", name="State")
    expect(state).to_contain_text('"articles": 1042')
    state.get_by_role("link", name="Change the state").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("State").fill("[1]")
    dialog.get_by_role("button", name="Set the state").click()
    expect(dialog.locator("#d-state-problem")).to_be_visible()
    dialog.get_by_label("State").fill('{"cursor": 9007199254740993}')
    dialog.get_by_role("button", name="Set the state").click()
    expect(state).to_contain_text('"cursor": 9007199254740993')
    expect(state).to_contain_text("Set by hand")
    state.get_by_role("link", name="Clear the state").click()
    page.get_by_role("dialog").get_by_role("button", name="Clear the state").click()
    expect(state).to_contain_text("Nothing yet")


def test_every_field_of_the_routing_is_there_without_script(
    page_without_script: Page, console: Console
) -> None:
    page = page_without_script
    page.goto(f"{console.url}/jobs/{console.ids['job:ledger-sync']}/edit")
    unfold(page, "where")
    for label in ("Number of shards", "Parameter that decides", "Only nodes with these labels"):
        expect(page.get_by_label(label)).to_be_visible()
    expect(page.get_by_label("Nodes", exact=True)).to_have_value("billing-b*\nbilling-a1")
    expect(page.locator("#routing-now")).to_contain_text("in this order: billing-b1 → billing-a1")
    page.get_by_label(re.compile(r"^\s*Pinned")).check()
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_role("region", name="Schedule")).to_contain_text("only: billing-b*")
