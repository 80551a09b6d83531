"""Workflows: text and graph beside each other, and the graph of a run by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console, stop_time, wait_until_live

FOCUSED = "() => document.activeElement.querySelector('title')?.textContent"


@pytest.fixture
def reader(page: Page, context: BrowserContext, looked_at: Console) -> Page:
    looked_at.open_as(context)
    stop_time(page)
    return page


def test_text_and_graph_edit_each_other(
    reader: Page, looked_at: Console, page_errors: PageErrors
) -> None:
    page = reader
    page_errors.expected.append("422")
    page.goto(f"{looked_at.url}/jobs/{looked_at.ids['job:weekly-load']}/edit")
    text = page.locator("textarea[name=yaml]")
    nodes = page.locator(".g-node")
    problems = page.locator("[data-pane-problems]")
    expect(nodes).to_have_count(8)
    expect(problems).to_have_text("Nothing is wrong with it.")

    # A step is chosen in the graph, so the cursor stands at it in the text.
    page.locator("#node-load").click()
    page.keyboard.press("End")
    page.keyboard.type("-orders")
    expect(page.locator("#node-load-orders")).to_be_visible()
    expect(problems).to_contain_text("load")
    expect(page.locator(".cm-lint-marker-error").first).to_be_visible()
    page.keyboard.press("Control+z")
    expect(problems).to_have_text("Nothing is wrong with it.")

    page.locator("#node-load").click()
    page.get_by_role("button", name="Add a step").click()
    expect(nodes).to_have_count(9)
    page.get_by_label("Key of the step").fill("report")
    page.keyboard.press("Enter")
    expect(page.locator("#node-report")).to_have_class("g-node g-wrong chosen")  # no handler yet
    page.get_by_label("Another step").select_option("check")
    page.get_by_role("button", name="Connect", exact=True).click()
    expect(page.get_by_role("button", name="Disconnect")).to_be_enabled()
    assert 'key: report\n    handler: ""\n    needs: [load, check]' in text.input_value()

    page.get_by_role("button", name="Difference").click()
    expect(page.locator(".change-list li")).to_have_text(
        [r"+ Step report added", "+ Link load → report added", "+ Link check → report added"],
        use_inner_text=True,
    )
    # Refused, the text comes back with its graph.
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_text("Nothing was saved yet.")).to_be_visible()
    expect(page.locator("#node-report")).to_be_visible()
    expect(text).to_be_hidden()
    page.get_by_role("link", name="Cancel").click()


def test_the_graph_of_a_run_is_walked_by_keyboard_while_it_is_live(
    reader: Page, looked_at: Console
) -> None:
    page = reader

    def ask_for_all(route: Route) -> None:
        """As from a page that shows something else of every step."""
        route.continue_(headers={**route.request.headers, "x-have": ""})

    page.route("**/steps", ask_for_all)
    page.goto(f"{looked_at.url}/runs/{looked_at.ids['run:weekly-load']}")
    wait_until_live(page)
    page.locator(".graph-view").focus()
    page.keyboard.press("Tab")
    said = [page.evaluate(FOCUSED)]
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowLeft", "End"):
        page.keyboard.press(key)
        said.append(page.evaluate(FOCUSED))
    assert said == [
        "step extract-orders, succeeded",
        "step convert, running, 32 of 1,200 items",
        "step settle, succeeded",
        "step load, waiting",
        "step convert, running, 32 of 1,200 items",
        "step check-again, skipped",
    ]
    expect(page.locator("[data-graph-follow]")).to_have_attribute("aria-pressed", "false")

    with page.expect_response("**/steps") as told:
        page.evaluate("() => document.body.dispatchEvent(new CustomEvent('live:runs'))")
    assert told.value.text().count("<tr ") == 8
    expect(page.locator(".g-node")).to_have_count(8)
    expect(page.locator(".g-node[tabindex='0']")).to_have_count(1)
    assert page.evaluate(FOCUSED) == said[-1]

    width = page.locator(".graph-view > svg").bounding_box()
    page.keyboard.press("+")
    wider = page.locator(".graph-view > svg").bounding_box()
    assert width is not None
    assert wider is not None
    assert wider["width"] > width["width"]
    page.keyboard.press("Enter")
    expect(page).to_have_url(
        f"{looked_at.url}/runs/{looked_at.ids['run:weekly-load']}#step-check-again"
    )
