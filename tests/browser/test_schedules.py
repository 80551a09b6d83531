"""Triggers in the job form: any number, of any kind, built, previewed, refused, kept."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console
from tests.browser.samples.rows import NOW
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.schedule import parse

DIALECTS = ("unix", "quartz", "spring")


def new_job(page: Page, console: Console, name: str) -> None:
    page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:billing']}")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="billing.invoice-close").click()


def add_first(page: Page, kind: str) -> Locator:
    """The first trigger of a job; returns its card."""
    page.get_by_role("button", name=re.compile(f"^{kind}")).click()
    cards = page.locator(".trigger-card")
    expect(cards).to_have_count(1)
    return cards.first


def add_another(page: Page, kind: str) -> Locator:
    cards = page.locator(".trigger-card")
    before = cards.count()
    page.get_by_role("button", name="Add a trigger").click()
    expect(cards).to_have_count(before + 1)
    cards.last.get_by_label(kind, exact=True).check()
    return cards.last


def field(card: Locator, name: str) -> Locator:
    return card.locator(f"[name$='.{name}']")


def preview(card: Locator) -> Locator:
    return card.locator(".when-preview")


def test_a_job_has_three_triggers_of_different_kinds(admin_page: Page, console: Console) -> None:
    new_job(admin_page, console, "three-ways")
    cron = add_first(admin_page, "Cron")
    field(cron, "expression").fill("30 9 * * 1-5")
    expect(preview(cron).locator("li").first).to_contain_text("Mon, Nov 23, 2026, 09:30:00")
    expect(preview(cron).locator("li").first).to_have_attribute("title", "2026-11-23 08:30:00 UTC")
    interval = add_another(admin_page, "Calendar interval")
    field(interval, "count").fill("2")
    field(interval, "unit").select_option("week")
    field(interval, "start_date").fill("2026-12-04")
    field(interval, "at_time").fill("06:15")
    expect(preview(interval).locator("li").nth(1)).to_contain_text("Dec 18, 2026, 06:15:00")
    window = add_another(admin_page, "Daily window")
    field(window, "step").fill("45")
    field(window, "from_time").fill("13:00")
    window.get_by_role("checkbox", name="Sat").check()
    expect(preview(window).locator("li").first).to_contain_text("Sat, Nov 21, 2026, 13:00:00")
    expect(field(cron, "expression")).to_have_value("30 9 * * 1-5")
    admin_page.get_by_role("button", name="Add the job").click()

    triggers = admin_page.locator(".trigger")
    expect(triggers).to_have_count(3)
    expect(triggers.nth(0)).to_contain_text("30 9 * * 1-5 Europe/Berlin")
    expect(triggers.nth(1)).to_contain_text("Next fire Fri, Dec 4, 06:15:00")
    expect(triggers.nth(2)).to_contain_text("Next fire Sat, Nov 21, 13:00:00")
    triggers.nth(1).get_by_role("button", name=re.compile("^Pause")).click()
    expect(triggers.nth(1)).to_contain_text("Paused")
    expect(triggers.nth(0)).not_to_contain_text("Paused")
    triggers.nth(1).get_by_role("button", name=re.compile("^Resume")).click()
    expect(triggers.nth(1)).not_to_contain_text("Paused")


def test_triggers_are_duplicated_and_removed(admin_page: Page, console: Console) -> None:
    new_job(admin_page, console, "twice")
    first = add_first(admin_page, "Once")
    field(first, "at").fill("2026-12-24T18:00")
    admin_page.get_by_role("button", name="Duplicate trigger 1").click()
    cards = admin_page.locator(".trigger-card")
    expect(cards).to_have_count(2)
    expect(field(cards.last, "at")).to_have_value("2026-12-24T18:00")
    field(cards.last, "at").fill("2026-12-31T18:00")
    admin_page.get_by_role("button", name="Remove trigger 1").click()
    expect(cards).to_have_count(1)
    expect(field(cards.first, "at")).to_have_value("2026-12-31T18:00")
    expect(admin_page.get_by_label("Name", exact=True)).to_have_value("twice")
    admin_page.get_by_role("button", name="Remove trigger 1").click()
    expect(cards).to_have_count(0)
    admin_page.get_by_role("button", name="Add the job").click()
    expect(admin_page.locator(".triggers")).to_have_text("By hand only")


def test_the_enter_key_saves_and_changes_no_trigger(admin_page: Page, console: Console) -> None:
    new_job(admin_page, console, "by-enter")
    card = add_first(admin_page, "Cron")
    field(card, "expression").fill("0 4 * * *")
    field(card, "expression").press("Enter")
    expect(admin_page.get_by_role("heading", level=1)).to_have_text("by-enter")
    expect(admin_page.locator(".trigger")).to_have_count(1)


def test_editing_leaves_triggers_that_were_not_touched(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/jobs/{console.ids['job:fetch-statements']}")
    triggers = admin_page.locator(".trigger")
    expect(triggers).to_have_count(3)
    texts, ids = triggers.all_inner_texts(), _ids(triggers)
    admin_page.get_by_role("link", name="Edit").click()
    admin_page.get_by_role("button", name="Save changes").click()
    expect(admin_page.locator(".toast")).to_contain_text("The job was saved.")

    assert triggers.all_inner_texts() == texts
    assert _ids(triggers) == ids  # a trigger that changed would be another one


def _ids(triggers: Locator) -> list[str]:
    return [str(triggers.nth(n).get_attribute("id")) for n in range(triggers.count())]


# --- what clocks do -----------------------------------------------------------------------------


def test_nights_of_clock_changes_are_marked(admin_page: Page, console: Console) -> None:
    new_job(admin_page, console, "nights")
    card = add_first(admin_page, "Cron")
    field(card, "expression").fill("30 2 28 3 *")  # clocks go forward on 2027-03-28
    first = preview(card).locator("li").first
    expect(first).to_contain_text("Mar 28, 2027, 03:00:00")
    expect(first).to_contain_text("clocks go forward: 02:30 becomes 03:00")
    field(card, "expression").fill("30 2 31 10 *")  # and back on 2027-10-31
    expect(first).to_contain_text("clocks go back: the first 02:30")
    card.locator(".trigger-more summary").click()
    field(card, "overlap").select_option("second")
    expect(first).to_contain_text("clocks go back: the second 02:30")


def test_a_job_says_why_it_does_not_fire_on_a_date(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/jobs/{console.ids['job:fetch-statements']}")
    admin_page.get_by_role("link", name="Does it fire on a date?").click()
    dialog = admin_page.get_by_role("dialog")
    dialog.get_by_label("Date", exact=True).fill("2027-02-09")
    dialog.get_by_role("button", name="Check").click()
    found = dialog.locator(".on-date > li")
    expect(found).to_have_count(3)
    expect(found.nth(0)).to_contain_text("The calendar “cn-holidays” takes this date away.")
    expect(found.nth(1)).to_contain_text("It fires at 08:00, 08:30")
    expect(found.nth(2)).to_contain_text("2027-02-01 and then on 2027-02-15")


# --- refused ------------------------------------------------------------------------------------


def test_a_refused_expression_keeps_all_that_was_typed(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("422")
    new_job(admin_page, console, "refused")
    window = add_first(admin_page, "Daily window")
    field(window, "step").fill("7")
    window.get_by_role("checkbox", name="Tue").check()
    window.locator(".trigger-more summary").click()
    field(window, "parameters").fill('{"half": ')
    field(window, "repeat_count").fill("many")
    cron = add_another(admin_page, "Cron")
    field(cron, "dialect").select_option("quartz")
    field(cron, "expression").fill("0 0 9 ? * 8")
    expect(preview(cron).locator("mark")).to_have_text("8")
    admin_page.get_by_role("button", name="Add the job").click()

    expect(admin_page.get_by_role("alert")).to_contain_text("Nothing was saved yet")
    expect(admin_page.locator("#trigger0-parameters-problem")).to_contain_text("not JSON")
    expect(admin_page.locator("#trigger0-repeat-count-problem")).to_contain_text("whole number")
    expect(field(window, "parameters")).to_have_value('{"half": ')
    expect(field(window, "parameters")).to_be_visible()
    expect(window.get_by_role("checkbox", name="Tue")).to_be_checked()
    expect(field(window, "step")).to_have_value("7")
    field(window, "parameters").fill('{"half": 2}')
    field(window, "repeat_count").fill("3")
    admin_page.get_by_role("button", name="Add the job").click()

    expression = field(cron, "expression")
    expect(expression).to_have_attribute("aria-invalid", "true")
    expect(expression).to_be_focused()
    problem = admin_page.locator("#trigger1-expression-problem")
    expect(problem).to_contain_text("day-of-week is 1-7 or SUN-SAT in the quartz dialect")
    expect(problem).to_contain_text("did you mean 7 (Saturday)?")
    expect(cron.locator(".fields mark").first).to_have_text("8")
    expression.fill("0 0 9 ? * 7")
    admin_page.get_by_role("button", name="Add the job").click()
    expect(admin_page.locator(".trigger")).to_have_count(2)


def test_a_trigger_that_never_fires_says_why(admin_page: Page, console: Console) -> None:
    new_job(admin_page, console, "never")
    card = add_first(admin_page, "Cron")
    field(card, "expression").fill("0 9 30 2 *")
    expect(preview(card).locator(".error-text")).to_contain_text("February has no day 30")


def test_two_equal_triggers_are_refused_at_the_second(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("422")
    new_job(admin_page, console, "same")
    field(add_first(admin_page, "Cron"), "expression").fill("0 9 * * *")
    admin_page.get_by_role("button", name="Duplicate trigger 1").click()
    cards = admin_page.locator(".trigger-card")
    expect(cards).to_have_count(2)
    admin_page.get_by_role("button", name="Add the job").click()
    expect(cards.last.locator(".error-text").first).to_contain_text("same as trigger 1")
    expect(cards.first.locator(".error-text")).to_have_count(0)


# --- the builder --------------------------------------------------------------------------------


def test_the_builder_writes_and_reads_the_expression(admin_page: Page, console: Console) -> None:
    new_job(admin_page, console, "built")
    card = add_first(admin_page, "Cron")
    expect(card.locator(".kinds :checked")).to_be_focused()  # or the next focus would be lost
    card.get_by_text("Build it by choosing").focus()
    admin_page.keyboard.press("Enter")
    card.get_by_label("It fires").select_option("every month")
    card.get_by_label("On", exact=True).select_option("a certain weekday")
    expect(field(card, "expression")).to_have_value("0 9 * * 1#1")
    expect(card.locator(".builder-note")).to_contain_text("does not know L, W and #")
    field(card, "dialect").select_option("quartz")
    expect(field(card, "expression")).to_have_value("0 0 9 ? * MON#1")
    card.get_by_label("Which").select_option("the last")
    card.get_by_label("Weekday", exact=True).select_option("Friday")
    expect(field(card, "expression")).to_have_value("0 0 9 ? * FRIL")
    expect(preview(card).locator("li").first).to_contain_text("Fri, Nov 27, 2026, 09:00:00")
    card.get_by_role("textbox", name="At", exact=True).fill("09:00, 18:30")
    expect(card.locator(".builder-note")).to_contain_text("Add a trigger for the other times")
    field(card, "expression").fill("0 */15 * * * ?")
    expect(card.get_by_label("It fires")).to_have_value("minutes")
    expect(card.locator("[data-part=minutes]")).to_have_value("15")
    field(card, "dialect").select_option("unix")
    expect(field(card, "expression")).to_have_value("*/15 * * * *")
    field(card, "expression").fill("0 9-17 * * 1")
    expect(card.locator(".builder-note")).to_contain_text("says more than can be chosen here")


CLOCK: dict[str, Any] = {"times": ["09:00", "18:00"]}
EARLY: dict[str, Any] = {"times": ["02:05"]}
CHOICES: tuple[dict[str, Any], ...] = (
    {"pattern": "minutes", "every": 1},
    {"pattern": "minutes", "every": 20},
    {"pattern": "hours", "every": 1, "minute": 7},
    {"pattern": "hours", "every": 8, "minute": 0},
    {"pattern": "daily", **CLOCK},
    {"pattern": "daily", "times": ["00:00", "00:30", "12:00", "12:30"]},
    {"pattern": "weekly", **CLOCK, "weekdays": [1, 2, 3, 4, 5]},
    {"pattern": "weekly", **EARLY, "weekdays": [6, 7]},
    {"pattern": "weekly", **EARLY, "weekdays": [7]},
    {"pattern": "monthly", **EARLY, "on": "day", "day": 31},
    {"pattern": "yearly", **CLOCK, "month": 2, "day": 29},
    {"pattern": "monthly", **EARLY, "on": "last"},
    {"pattern": "monthly", **EARLY, "on": "last-working"},
    {"pattern": "monthly", **CLOCK, "on": "nearest", "day": 15},
    {"pattern": "monthly", **CLOCK, "on": "nth", "nth": "5", "weekday": 7},
    {"pattern": "monthly", **CLOCK, "on": "nth", "nth": "last", "weekday": 1},
)


def test_all_dialects_say_the_same_of_every_choice(admin_page: Page, console: Console) -> None:
    new_job(admin_page, console, "choices")
    address = admin_page.locator("script[src*='builder.js']").get_attribute("src")
    written = admin_page.evaluate(
        """async ([address, choices, dialects]) => {
          const {read, write} = await import(address.replace('builder.js', 'cron-choices.js'));
          return choices.map((choice) => dialects.map((dialect) => {
            const {expression} = write(choice, dialect);
            return {expression, read: read(expression, dialect)};
          }));
        }""",
        [address, CHOICES, DIALECTS],
    )

    for choice, answers in zip(CHOICES, written, strict=True):
        fires = {}
        for dialect, answer in zip(DIALECTS, answers, strict=True):
            assert answer["read"] == choice, (dialect, answer)
            fires[dialect] = _fires(answer["expression"], dialect)
        assert len(set(map(tuple, fires.values()))) == 1, json.dumps([choice, answers])


def _fires(expression: str, dialect: str) -> list[int]:
    spec = CronSpec(expression=expression, dialect=dialect, timezone="Europe/Berlin")
    schedule = parse(spec, saved_at=NOW)

    def walk() -> Any:
        at = schedule.next_after(NOW)
        while at is not None:
            yield at
            at = schedule.next_after(at)

    return list(islice(walk(), 40))


# --- without script -----------------------------------------------------------------------------


def test_triggers_are_added_without_script(page_without_script: Page, console: Console) -> None:
    page = page_without_script
    page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:billing']}")
    page.get_by_label("Name", exact=True).fill("plain")
    page.get_by_label("Handler", exact=True).fill("billing.invoice-close")
    card = add_first(page, "Cron")
    field(card, "expression").fill("0 4 * * *")
    expect(field(card, "rate")).to_be_hidden()
    other = add_another(page, "Fixed rate")
    field(other, "rate").fill("3")
    expect(field(other, "expression")).to_be_hidden()
    page.get_by_role("button", name="Duplicate trigger 2").click()
    expect(page.locator(".trigger-card")).to_have_count(3)
    page.get_by_role("button", name="Remove trigger 3").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("plain")
    page.get_by_role("button", name="Add the job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("plain")
    expect(page.locator(".trigger")).to_have_count(2)
    page.context.close()


def test_six_fields_typed_as_unix_cron_are_read_in_the_right_dialect(
    admin_page: Page, console: Console
) -> None:
    admin_page.goto(f"{console.url}/jobs/new")
    admin_page.get_by_role("button", name=re.compile("^Cron")).click()
    admin_page.get_by_label("Cron expression").fill("0 30 9 * * MON-FRI")
    preview = admin_page.locator("#trigger0-preview")
    expect(preview.locator(".error-text")).to_be_visible()
    preview.get_by_role("button", name="Read it as spring").click()
    expect(admin_page.get_by_label("Dialect")).to_have_value("spring")
    expect(preview.locator(".in-words")).to_contain_text("09:30")
