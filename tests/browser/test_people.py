"""The journeys of whoever looks after people: add one, give roles, make tokens, look back."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import PASSWORD, Console, stop_time


def test_a_user_is_added_and_logs_in_with_the_password_shown_once(
    admin_page: Page, console: Console, browser: Browser
) -> None:
    admin_page.goto(console.url + "/users")
    admin_page.get_by_role("link", name="New user").click()
    admin_page.get_by_label("Name", exact=True).fill("carla")
    admin_page.get_by_label("Role on crm").select_option("developer")
    admin_page.get_by_role("button", name="Add the user").click()
    password = admin_page.locator("#one-time-password").inner_text()
    admin_page.get_by_role("link", name="To the users").click()
    expect(admin_page.locator("tr", has_text="carla")).to_contain_text("Invited")

    with browser.new_context() as elsewhere:
        page = elsewhere.new_page()
        page.goto(console.url + "/login")
        page.get_by_label("Name").fill("carla")
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        page.get_by_label("Current password").fill(password)
        for label in ("New password", "New password again"):
            page.get_by_label(label, exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Set the password").click()
        expect(page.get_by_role("navigation", name="Main")).not_to_contain_text("Users")
        page.goto(console.url + "/account")
        expect(page.locator(".page-head")).to_contain_text("Developer of crm")


def test_roles_that_are_taken_away_end_the_sessions(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/users/{console.ids['user:maria']}")
    expect(admin_page.get_by_text("Firefox on Linux")).to_be_visible()
    admin_page.get_by_label("Role on warehouse").select_option("")
    admin_page.get_by_role("button", name="Save the roles").click()
    expect(admin_page.locator(".toast")).to_contain_text("The roles were saved.")
    expect(admin_page.get_by_text("Logged in nowhere.")).to_be_visible()


def test_a_token_is_made_used_and_revoked(
    admin_page: Page, console: Console, browser: Browser
) -> None:
    admin_page.goto(console.url + "/tokens")
    admin_page.get_by_role("link", name="New API token").last.click()
    admin_page.get_by_label("Name", exact=True).fill("browser-test")
    admin_page.get_by_role("button", name="30", exact=True).click()
    expect(admin_page.get_by_label("Works for")).to_have_value("30")
    admin_page.get_by_role("radio", name="Viewer").check()
    admin_page.get_by_text("Only on these").click()
    admin_page.get_by_role("checkbox", name="billing").check()
    admin_page.get_by_role("button", name="Make the token").click()
    token = admin_page.locator("#token").inner_text()
    expect(admin_page.locator("pre")).to_contain_text(f"Bearer {token}")

    with browser.new_context(extra_http_headers={"Authorization": f"Bearer {token}"}) as program:
        assert program.request.get(console.url + "/api/v1/me").ok
        admin_page.goto(console.url + "/tokens")
        row = admin_page.locator("tr", has_text="browser-test")
        expect(row).to_contain_text("Viewer, on billing")
        admin_page.get_by_role("button", name="Revoke: browser-test").click()
        admin_page.get_by_role("button", name="Revoke 1 token").click()
        expect(admin_page.locator(".toast")).to_contain_text("does not work any more")
        assert program.request.get(console.url + "/api/v1/me").status == 401


def test_a_chosen_zone_holds_on_every_page_and_beats_the_browsers(
    admin_page: Page, console: Console
) -> None:
    admin_page.goto(console.url + "/account")
    expect(admin_page.locator("[data-zone-name]")).to_have_text("Europe/Berlin")
    admin_page.get_by_label("Time zone").select_option("Asia/Tokyo")
    admin_page.get_by_role("button", name="Save", exact=True).click()
    expect(admin_page.locator("[data-zone-name]")).to_have_text("Asia/Tokyo")
    expect(admin_page.get_by_text("It is 21:31 there now.")).to_be_visible()
    admin_page.goto(f"{console.url}/runs/{console.ids['run:events-compact']}")
    expect(admin_page.locator("main time[data-at]").first).to_contain_text("21:")
    admin_page.goto(console.url + "/account")
    admin_page.get_by_label("Time zone").select_option("")
    admin_page.get_by_role("button", name="Save", exact=True).click()
    expect(admin_page.locator("[data-zone-name]")).to_have_text("Europe/Berlin")


def test_theme_and_language_of_the_menus_are_kept_with_the_account(
    page: Page, context: BrowserContext, console: Console, browser: Browser
) -> None:
    console.open_as(context, "viewer")
    stop_time(page)
    page.goto(console.url + "/jobs")
    page.get_by_role("button", name="Theme").click()
    with page.expect_response("**/account/preferences"):
        page.get_by_role("menuitemradio", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    with browser.new_context() as elsewhere:
        other = elsewhere.new_page()
        other.goto(console.url + "/login")
        other.get_by_label("Name").fill("viewer")
        other.get_by_label("Password").fill(PASSWORD)
        other.get_by_role("button", name="Log in").click()
        expect(other.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_audit_tells_what_was_before_and_narrows_down(
    admin_page: Page, console: Console
) -> None:
    admin_page.goto(console.url + "/audit")
    admin_page.locator("main").get_by_label("Action").select_option("settings.")
    expect(admin_page).to_have_url(re.compile(r"/audit\?action=settings\.$"))
    entry = admin_page.locator(".audit > li", has_text="Settings changed").first
    entry.get_by_text("Details").click()
    expect(entry.locator("tr", has_text="Name of the installation")).to_contain_text("prod-eu")
    admin_page.reload()
    expect(admin_page.locator("main").get_by_label("Action")).to_have_value("settings.")
    with admin_page.expect_download() as download:
        admin_page.get_by_role("link", name="CSV").click()
    assert "settings.updated" in download.value.path().read_text()
    admin_page.get_by_role("link", name="Clear").click()
    admin_page.locator(".audit").get_by_role("link", name="payment-reconcile").first.click()
    expect(admin_page.locator("h1")).to_contain_text("payment-reconcile")


def test_everything_can_be_reached_on_a_phone(admin_page: Page, console: Console) -> None:
    admin_page.set_viewport_size({"width": 390, "height": 844})
    admin_page.goto(console.url + "/")
    admin_page.get_by_role("button", name="More").click()
    places = admin_page.get_by_role("navigation", name="More pages")
    for name in ("Audit", "Users", "API tokens", "Settings", "Account", "Admins", "About"):
        expect(places.get_by_role("link", name=name, exact=True)).to_be_visible()
    places.get_by_role("link", name="Users").click()
    expect(admin_page).to_have_title("Users · Tickwheel [prod-eu]")


def test_keys_lead_to_pages_that_one_may_see(
    page: Page, context: BrowserContext, console: Console
) -> None:
    console.open_as(context, "viewer")
    stop_time(page)
    page.goto(console.url + "/jobs")
    page.keyboard.type("gu")  # not for viewers: nothing happens
    page.keyboard.type("gt")
    expect(page).to_have_url(console.url + "/tokens")
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_contain_text("API tokens")
    expect(page.locator("#shortcuts")).not_to_contain_text("Users")


def test_forms_work_without_script(page_without_script: Page, console: Console) -> None:
    page = page_without_script
    page.goto(console.url + "/tokens/new")
    page.get_by_label("Name", exact=True).fill("no-script")
    page.get_by_role("button", name="Make the token").click()
    page.get_by_role("link", name="To your tokens").click()
    page.get_by_role("button", name="Revoke: no-script").click()
    page.get_by_role("button", name="Revoke 1 token").click()
    expect(page.get_by_text("The token does not work any more.")).to_be_visible()
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("menuitemradio", name="Light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_who_may_not_is_told_which_role_it_takes(
    page: Page, context: BrowserContext, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("403")
    console.open_as(context, "viewer")
    page.goto(console.url + "/settings")
    expect(page.locator("main")).to_contain_text("This takes the role “Admin”")
