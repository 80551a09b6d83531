"""Calendars: made by hand and from files, used by triggers, and what comes as a heat map."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console, stop_time

CSV = """date,name
2026-11-22,Town fair
2026-11-32,Nothing
2026-11-23,
12-25,Christmas
"""
ICAL = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VEVENT
UID:1
DTSTART;VALUE=DATE:20270101
DTEND;VALUE=DATE:20270103
SUMMARY:New Year
END:VEVENT
END:VCALENDAR
"""


def test_a_calendar_made_by_import_takes_days_from_a_trigger(
    admin_page: Page, console: Console, tmp_path: Path
) -> None:
    admin_page.goto(f"{console.url}/calendars")
    admin_page.get_by_role("link", name="New calendar").click()
    admin_page.get_by_label("Name", exact=True).fill("town")
    admin_page.get_by_label("Text of the file").last.fill(CSV)
    admin_page.get_by_role("button", name="Look at it").click()
    found = admin_page.locator(".import-found")
    expect(found).to_contain_text("3 days would be added.")
    expect(found).to_contain_text("2026-11-22 Town fair")
    expect(found.locator(".import-problems")).to_contain_text("line 3 There is no day 2026-11-32.")
    admin_page.get_by_role("button", name="Add 3 days").click()
    expect(admin_page.get_by_label("Dates")).to_have_value("2026-11-22\n2026-11-23")
    expect(admin_page.get_by_label("Every year")).to_have_value("12-25")

    file = tmp_path / "holidays.ics"
    file.write_text(ICAL)
    admin_page.locator("#c-file").set_input_files(file)
    expect(found).to_contain_text("2 days would be added.")
    expect(found).to_contain_text("2027-01-02 New Year")
    admin_page.get_by_role("button", name="Add 2 days").click()
    expect(admin_page.get_by_label("Name", exact=True)).to_have_value("town")
    expect(admin_page.locator(".year-head")).to_contain_text("3 days without fires")
    admin_page.get_by_role("button", name="The year after").click()
    expect(admin_page.locator(".year-head")).to_contain_text("2027")
    expect(admin_page.locator(".year .off")).to_have_text(["1", "2", "25"])
    admin_page.get_by_role("button", name="Add the calendar").click()
    expect(admin_page.get_by_role("heading", level=1)).to_have_text("town")
    expect(admin_page.locator(".facts")).to_contain_text("4 dates (2026-11-22 – 2027-01-02)")

    admin_page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:billing']}")
    admin_page.get_by_label("Name", exact=True).fill("town-hall")
    admin_page.get_by_role("button", name="billing.invoice-close").click()
    admin_page.get_by_role("button", name=re.compile("^Cron")).click()
    admin_page.get_by_label("Cron expression").fill("0 9 * * *")
    admin_page.locator(".trigger-more summary").click()
    admin_page.get_by_label("Calendar", exact=True).select_option("town")
    lines = admin_page.locator("#trigger0-preview li")
    expect(lines.nth(1)).to_contain_text("Sun, Nov 22, 2026: removed by town")
    expect(lines.nth(2)).to_contain_text("Mon, Nov 23, 2026: removed by town")
    expect(lines.nth(3)).to_contain_text("Tue, Nov 24, 2026, 09:00:00")
    admin_page.get_by_role("button", name="Add the job").click()
    expect(admin_page.locator(".trigger").get_by_role("link", name="town")).to_be_visible()


def test_a_calendar_in_use_is_not_deleted_and_names_who_uses_it(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("409")
    for name, user in (("cn-holidays", "billing/fetch-statements"), ("maintenance", None)):
        admin_page.goto(f"{console.url}/calendars")
        admin_page.get_by_role("link", name=name).click()
        admin_page.get_by_role("link", name="Delete").click()
        admin_page.get_by_role("button", name="Delete 1 calendar").click()
        if user is None:
            expect(admin_page.locator(".toast")).to_contain_text("The calendar was deleted.")
            expect(admin_page.get_by_role("link", name="cn-holidays")).to_be_visible()
            expect(admin_page.get_by_role("link", name=name)).to_have_count(0)
            continue
        expect(admin_page.get_by_role("alert")).to_contain_text(user)
        admin_page.get_by_role("link", name="Keep it").click()
        expect(admin_page.get_by_role("dialog")).to_be_hidden()
        users = admin_page.get_by_role("region", name="Used by")
        expect(users.get_by_role("link", name="fetch-statements")).to_be_visible()
        expect(users.get_by_role("link", name="banking-days")).to_be_visible()


def test_a_refused_calendar_keeps_what_was_typed(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("422")
    admin_page.goto(f"{console.url}/calendars/new")
    admin_page.get_by_label("Name", exact=True).fill("wrong")
    admin_page.get_by_label("Dates").fill("2026-12-24\n2026-13-01\n2026-02-30")
    admin_page.get_by_role("checkbox", name="Sun").check()
    admin_page.locator("#c-more summary").click()
    admin_page.get_by_label("Hours of every day").fill("22:00-24:00\n09:00")
    admin_page.get_by_label("Cron expression", exact=True).fill("* * 2 ? * 9")
    admin_page.get_by_role("button", name="Add the calendar").click()
    expect(admin_page.locator("#c-windows-problem")).to_contain_text("“09:00”: Write a window")
    expect(admin_page.locator("#year-picture")).to_contain_text("The picture comes when")
    admin_page.get_by_label("Hours of every day").fill("22:00-24:00")
    admin_page.get_by_role("button", name="Add the calendar").click()

    dates = admin_page.locator("#c-dates-problem p")
    expect(dates).to_have_count(2)
    expect(dates.first).to_contain_text("“2026-13-01”: This must be a date")
    expect(admin_page.get_by_label("Dates")).to_have_value("2026-12-24\n2026-13-01\n2026-02-30")
    expect(admin_page.get_by_role("checkbox", name="Sun")).to_be_checked()
    expect(admin_page.locator("#c-cron-0-problem")).to_contain_text("day-of-week is 1-7")
    admin_page.get_by_label("Dates").fill("2026-12-24")
    admin_page.get_by_label("Cron expression", exact=True).first.fill("* * 2 ? * 7")
    admin_page.get_by_role("button", name="Another expression").click()
    expect(admin_page.get_by_label("Cron expression", exact=True)).to_have_count(2)
    expect(admin_page.locator(".year-head")).to_contain_text("53 days without fires")
    admin_page.get_by_role("button", name="Add the calendar").click()
    expect(admin_page.locator(".facts")).to_contain_text("22:00–24:00")
    expect(admin_page.locator(".facts")).to_contain_text("* * 2 ? * 7 quartz")


def test_a_stale_calendar_form_says_that_somebody_else_was_faster(
    admin_page: Page, context: BrowserContext, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("409")
    address = f"{console.url}/calendars/{console.ids['calendar:banking-days']}/edit"
    other = context.new_page()
    stop_time(other)
    for page in (admin_page, other):
        page.goto(address)
    other.get_by_label("Dates").fill("2026-12-05")
    other.get_by_role("button", name="Save changes").click()
    expect(other.get_by_role("heading", level=1)).to_have_text("banking-days")
    other.close()
    admin_page.get_by_label("Dates").fill("2026-12-12")
    admin_page.get_by_role("button", name="Save changes").click()
    expect(admin_page.get_by_role("alert")).to_contain_text("Somebody else changed this calendar")
    expect(admin_page.get_by_label("Dates")).to_have_value("2026-12-12")


def test_the_heat_map_shows_what_comes_and_the_fullest_minutes(
    admin_page: Page, console: Console
) -> None:
    admin_page.goto(console.url)
    admin_page.keyboard.press("g")
    admin_page.keyboard.press("c")
    clock = admin_page.get_by_role("table", name="Fires by time of day")
    expect(clock.get_by_role("row")).to_have_count(8)
    saturday = clock.get_by_role("row", name=re.compile("^Sat, Nov 21"))
    # What fires every minute is no matter of an hour, unless somebody wants to see it.
    jobs = admin_page.get_by_role("table", name="Fires by job")
    expect(jobs).not_to_contain_text("disk-usage-probe")
    admin_page.get_by_role("checkbox", name=re.compile("^Also what fires more often")).check()
    expect(admin_page).to_have_url(re.compile("frequent=1"))
    assert int(saturday.get_by_role("cell").nth(3).inner_text()) > 60
    fullest = admin_page.get_by_role("region", name="Fullest minutes").locator("li").first
    expect(fullest.get_by_role("link", name="payment-reconcile")).to_be_visible()
    expect(jobs.get_by_role("row", name=re.compile("^disk-usage-probe"))).to_contain_text("1,440")
    # No number is cut on a phone either, and a cell leads to its day.
    admin_page.set_viewport_size({"width": 390, "height": 844})
    assert not admin_page.evaluate(
        "[...document.querySelectorAll('.heat td')].filter(c => c.scrollWidth > c.clientWidth)"
        ".map(c => c.textContent)"
    )
    admin_page.set_viewport_size({"width": 1440, "height": 900})
    cell = saturday.get_by_role("link").nth(3)
    expect(cell).to_have_attribute("href", re.compile(r"view=day&from=2026-11-21$"))

    saturday.get_by_role("link").first.click()
    expect(admin_page).to_have_url(re.compile(r"view=day&from=2026-11-21$"))
    expect(clock.get_by_role("row")).to_have_count(5)
    admin_page.get_by_role("combobox", name="Executor").select_option("crm")
    expect(admin_page).to_have_url(re.compile("executor="))
    quarter = clock.get_by_role("row", name=re.compile("^:15")).get_by_role("cell")
    expect(quarter.nth(10)).to_have_text("1")  # sync-salesforce
    expect(jobs.get_by_role("row")).to_have_count(4)
    admin_page.get_by_role("combobox", name="Executor").select_option("All executors")
    admin_page.get_by_role("link", name="Week").click()
    admin_page.get_by_role("link", name="Later").click()
    expect(clock.get_by_role("row").nth(1)).to_contain_text("Sat, Nov 28")


def test_a_viewer_sees_calendars_and_changes_none(
    page: Page, context: BrowserContext, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("403")
    console.open_as(context, "viewer")
    address = f"/calendars/{console.ids['calendar:cn-holidays']}"
    for path in ("/calendar", "/calendars", address):
        page.goto(console.url + path)
        main = page.get_by_role("main")
        expect(main.get_by_role("link", name=re.compile("New|Edit|Delete"))).to_have_count(0)
        assert main.locator("form[method=post]").count() == 0
    for path in ("/calendars/new", f"{address}/edit", f"{address}/delete"):
        answer = page.goto(console.url + path)
        assert answer is not None
        assert answer.status == 403
