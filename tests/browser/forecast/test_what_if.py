"""What would a change bring: asked from a page of its own and from a form, looked at and left."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.kit.consoles import Console
from tests.browser.kit.contrasts import Contrasts
from tests.browser.test_looks import AXE, DOUBLED_IDS, WIDEST, run_axe

ANSWER_MS = 30_000  # a forecast starts Python twice, on a machine that has other work


def look_at_answer(page: Page) -> list[str]:
    """What is wrong with it, in both themes and at both widths."""
    expect(page.get_by_role("heading", name="What it would bring")).to_be_visible(timeout=ANSWER_MS)
    expect(page.locator("#what-if-progress")).to_be_hidden()
    page.evaluate("() => scrollTo(0, 0)")  # the header lets through what lies behind it
    page.mouse.move(0, 0)
    page.locator("#what-if-hours").evaluate("(details) => { details.open = true; }")
    page.evaluate(AXE)
    found: list[str] = page.evaluate(DOUBLED_IDS) + run_axe(page, "all but contrast")
    contrasts = Contrasts()
    for theme in ("light", "dark"):
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        found += [f"{theme}: {fault}" for fault in contrasts.faults(page)]
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate("() => document.documentElement.scrollWidth") > width:
            found.append(f"scrolls sideways at {width}: {page.evaluate(WIDEST)}")
    return found


def test_the_slots_of_a_node_are_asked_about(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/what-if?change=slots&of=7")
    admin_page.get_by_label("Runs at a time").fill("1")
    admin_page.get_by_role("button", name="Ask", exact=True).click()
    admin_page.get_by_role("link", name="7 d").click()
    expect(admin_page.get_by_role("row", name="Slots 6 1")).to_be_visible(timeout=ANSWER_MS)
    assert look_at_answer(admin_page) == []
    expect(admin_page.locator("svg.chart")).to_have_count(6)


def test_a_form_is_asked_about_and_stays_as_it_is_typed(admin_page: Page, console: Console) -> None:
    job = console.ids["job:payment-reconcile"]
    admin_page.goto(f"{console.url}/jobs/{job}/edit")
    expression = admin_page.locator("[name$='.expression']").first
    expression.fill("0 * * * *")
    admin_page.get_by_role("button", name="What if?").click()
    expect(admin_page.locator(".findings")).to_contain_text("go and", timeout=ANSWER_MS)
    admin_page.get_by_role("button", name="3 d").click()
    expect(admin_page.get_by_role("button", name="3 d")).to_have_attribute(
        "aria-pressed", "true", timeout=ANSWER_MS
    )
    assert look_at_answer(admin_page) == []
    expect(expression).to_have_value("0 * * * *")
    expect(admin_page).to_have_url(f"{console.url}/jobs/{job}/edit")
    admin_page.goto(f"{console.url}/jobs/new?from={job}")
    admin_page.get_by_label("Name", exact=True).fill("payment-reconcile-again")
    admin_page.get_by_role("button", name="What if?").click()
    expect(admin_page.locator("#what-if")).to_contain_text(
        "A new job has no runs yet", timeout=ANSWER_MS
    )
    expect(admin_page.get_by_role("row", name="payment-reconcile-again New job")).to_be_visible()
    assert look_at_answer(admin_page) == []
    admin_page.goto(f"{console.url}/jobs/{job}/edit")
    expression.fill("not a cron")
    admin_page.get_by_role("button", name="What if?").click()
    expect(admin_page.get_by_text("Nothing was simulated.")).to_be_visible()
