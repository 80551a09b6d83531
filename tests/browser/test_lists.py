"""Lists as people work with them: the filter box, saved views, many jobs at once."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.kit.consoles import Console, stop_time


def filter_of(page: Page) -> str:
    """What the address filters by."""
    return parse_qs(urlparse(page.url).query).get("q", [""])[0]


CHOOSE_WHILE_TYPING = """() => {
  const box = document.querySelector('[data-filter-box]');
  const press = (key) => box.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
  box.value = 'owner:ma';
  box.dispatchEvent(new Event('input', {bubbles: true}));
  press('ArrowDown');
  press('Enter');
  // Timers end in the order of their times: what typing has started is over by then.
  return new Promise((resolve) => setTimeout(resolve, 300));
}"""


def test_a_list_of_suggestions_stays_closed_after_a_choice(
    admin_page: Page, console: Console
) -> None:
    page = admin_page
    page.goto(f"{console.url}/jobs")
    page.keyboard.press("/")
    page.keyboard.type("owner:m")
    options = page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    expect(options).to_have_text(["maria"])
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(CHOOSE_WHILE_TYPING)

    expect(page).to_have_url(re.compile("owner%3Amaria"))
    box = page.get_by_role("combobox", name="Filter jobs")
    expect(box).to_have_attribute("aria-expanded", "false")
    assert not [url for url in asked if "filter-values" in url]


def test_the_box_suggests_and_back_restores(admin_page: Page, console: Console) -> None:
    page = admin_page
    page.goto(f"{console.url}/jobs")
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Filter jobs")
    options = page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    expect(options.first).to_contain_text("executor:")  # which keys there are
    page.keyboard.type("ow")
    expect(options).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(box).to_have_value("owner:")
    page.keyboard.type("ma")
    expect(options).to_have_text(["maria"])
    page.keyboard.press("ArrowDown")
    expect(box).to_have_attribute("aria-activedescendant", "filter-choice-0")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("owner%3Amaria"))
    expect(box).to_have_attribute("aria-expanded", "false")
    expect(page.locator("tbody")).to_contain_text("daily-snapshot")
    expect(page.locator("tbody")).not_to_contain_text("churn-scoring")
    # The tabs follow the filter, and go on from it.
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Running").click()
    assert filter_of(page) == "owner:maria state:running"
    expect(box).to_have_value("owner:maria state:running")
    page.go_back()
    expect(box).to_have_value("owner:maria")

    page.goto(f"{console.url}/jobs?q=team:x+executor:nowhere")
    notice = page.locator("#filter-problems")
    expect(notice).to_contain_text("There is no filter “team:”. There are executor:, owner:")
    expect(notice).to_contain_text("There is no executor:nowhere here. There are archive, billing")


def test_a_view_is_saved_shared_and_seen_by_others(
    admin_page: Page, console: Console, browser: Browser
) -> None:
    page = admin_page
    page.goto(f"{console.url}/jobs?q=tag:critical&sort=-name")
    page.get_by_role("link", name="Save view").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name").fill("Critical, reversed")
    dialog.get_by_label("Share it").check()
    dialog.get_by_role("button", name="Save").click()
    tab = page.get_by_role("navigation", name="Views").get_by_role("link", name="Critical")
    expect(tab).to_have_attribute("aria-current", "page")

    with browser.new_context() as context:
        console.open_as(context, "viewer")
        other = context.new_page()
        stop_time(other)
        other.goto(f"{console.url}/jobs")
        shared = other.get_by_role("link", name="Critical, reversed")
        expect(shared).to_contain_text("admin")
        shared.click()
        expect(other.locator("tbody tr").first).to_contain_text("payment-reconcile")
        expect(other.get_by_role("link", name="Edit view")).to_have_count(0)
        expect(other.locator("tbody input[type=checkbox]")).to_have_count(0)

    page.get_by_role("link", name="Edit view").click()
    dialog.get_by_role("textbox", name="Name").fill("Critical")
    dialog.get_by_role("button", name="Save").click()
    expect(tab).to_have_text("Critical")
    page.get_by_role("link", name="Edit view").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile(r"/jobs$"))
    expect(tab).to_have_count(0)


def test_all_that_match_are_paused_and_tagged(admin_page: Page, console: Console) -> None:
    page = admin_page
    page.goto(f"{console.url}/jobs?q=executor:warehouse")
    boxes = page.locator("tbody .select input")
    count = boxes.count()
    assert count >= 3
    boxes.nth(0).click()
    boxes.nth(2).click(modifiers=["Shift"])
    bar = page.locator("#bulk")
    expect(bar).to_contain_text("3 selected")
    with page.expect_response(lambda answer: answer.request.headers.get("x-block") == "rows"):
        page.evaluate("() => document.body.dispatchEvent(new CustomEvent('live:jobs'))")
    expect(bar).to_contain_text("3 selected")
    expect(boxes.nth(1)).to_be_checked()
    bar.get_by_role("button", name="Tag").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Tag 3 jobs")
    dialog.get_by_label("Tag", exact=True).fill("audited")
    dialog.get_by_role("button", name="Save the tags").click()
    expect(dialog).to_contain_text("3 jobs have the tag.")
    dialog.get_by_role("link", name="Close").click()

    page.goto(f"{console.url}/jobs?q=tag:audited")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.locator("[data-select-all]").check()
    bar.get_by_label("All that match, on every page").check()
    bar.get_by_role("button", name="Pause").click()
    expect(dialog).to_contain_text("tag:audited")
    dialog.get_by_role("button", name="Pause 3 jobs").click()
    expect(dialog).to_contain_text("3 jobs are paused.")
    dialog.get_by_role("link", name="Close").click()
    expect(bar).to_be_hidden()
    expect(page.locator("tbody tr.paused")).to_have_count(3)


def test_a_row_has_a_menu_of_its_own(admin_page: Page, console: Console) -> None:
    page = admin_page
    job = console.ids["job:lead-scoring"]
    by_code = console.ids["job:month-end"]
    page.goto(f"{console.url}/jobs")
    menu = page.get_by_role("menu", name="What to do with this job")
    page.get_by_role("button", name="More: month-end").click()
    expect(menu.get_by_role("menuitem", name="Edit")).to_be_hidden()  # code says what it is
    expect(menu.get_by_role("menuitem", name="Duplicate")).to_have_attribute(
        "href", f"/jobs/new?from={by_code}"
    )
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More: lead-scoring").click()
    expect(menu.get_by_role("menuitem", name="Edit")).to_have_attribute("href", f"/jobs/{job}/edit")
    menu.get_by_role("menuitem", name="Run now, with parameters").click()
    expect(menu).to_be_hidden()
    expect(page.get_by_role("dialog")).to_contain_text("lead-scoring")


def test_lists_filter_and_save_views_without_script(
    page_without_script: Page, console: Console
) -> None:
    page = page_without_script
    page.goto(f"{console.url}/jobs")
    page.get_by_label("Filter jobs").fill("tag:critical state:active")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name="Save view").click()
    page.get_by_role("textbox", name="Name").fill("Plain")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="Plain")).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="Edit view").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="Plain")).to_have_count(0)


@pytest.mark.parametrize("place", ["runs", "jobs"])
def test_old_rows_cannot_be_acted_on_while_others_are_on_their_way(
    admin_page: Page, console: Console, place: str
) -> None:
    """What one would select, open or cancel is not what one asked for."""
    page = admin_page
    page.goto(f"{console.url}/{place}")
    rows, bulk = page.locator("#rows"), page.locator("#bulk")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("tr.selected")).to_have_count(1)
    held: list[Route] = []
    # Answers come when the test lets them.
    page.route(re.compile(rf"/{place}\?q="), lambda route: held.append(route))
    box = page.get_by_role("combobox")
    box.fill("executor:billing")
    box.press("Enter")
    expect(rows).to_have_attribute("aria-busy", "true")
    expect(page.get_by_role("status").filter(has_text="Loading…")).to_be_visible()
    assert rows.evaluate("rows => rows.inert")
    assert bulk.evaluate("form => form.inert")
    address = page.url
    page.locator("body").evaluate("body => document.activeElement.blur()")
    for key in ("j", "x", "Enter"):
        page.keyboard.press(key)
    bulk.evaluate("form => form.requestSubmit(form.querySelector('button[name=do]'))")
    page.locator("tbody a").first.click(force=True, no_wait_after=True)
    expect(page.locator("tr.selected")).to_have_count(1)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.url == address
    held[-1].continue_()  # those before it were given up
    page.unroute_all(behavior="ignoreErrors")
    expect(rows).not_to_have_attribute("aria-busy", "true")
    expect(page.get_by_text("Loading…")).to_have_count(0)
    assert not rows.evaluate("rows => rows.inert")


@pytest.mark.parametrize("place", ["jobs", "audit"])
def test_old_rows_are_grey_while_a_whole_page_is_on_its_way(
    admin_page: Page, console: Console, place: str
) -> None:
    page = admin_page
    page.goto(f"{console.url}/{place}")
    # In one step: the navigation begins behind it.
    seen = page.evaluate(_ASK_FOR_ANOTHER, place)
    assert seen == [True, "true", False, None]
    expect(page).to_have_url(re.compile(rf"/{place}\?"))
    expect(page.locator("#rows")).not_to_have_attribute("aria-busy", "true")


# What the rows are at once, and when the browser shows a kept page again.
_ASK_FOR_ANOTHER = """place => {
  const rows = document.getElementById('rows');
  const state = () => [rows.inert, rows.getAttribute('aria-busy')];
  if (place === 'jobs') {
    document.querySelector('#list-head .tabs a:nth-of-type(2)').click();
  } else {
    const form = document.querySelector('form.bar');
    form.elements.person.value = 'x';
    form.requestSubmit();
  }
  const asked = state();
  window.dispatchEvent(new PageTransitionEvent('pageshow'));
  return [...asked, ...state()];
}"""
