"""What people do in the console: find, switch, type, refuse, follow; with and without script."""

from __future__ import annotations

import re
import urllib.error
import urllib.parse
import urllib.request

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console, set_preference, unfold

PAYLOAD = "<img src=x onerror=window.__hacked=1>"


def fill_new_job(page: Page, console: Console, name: str) -> None:
    page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:billing']}")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="billing.invoice-close").click()


def test_the_filter_lives_in_the_address(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/jobs")
    admin_page.keyboard.press("/")
    admin_page.keyboard.type("gpu")

    expect(admin_page).to_have_url(re.compile(r"/jobs\?q=gpu$"))
    expect(admin_page.locator("tbody tr")).to_have_count(3)
    admin_page.reload()
    expect(admin_page.locator("tbody tr")).to_have_count(3)
    expect(admin_page.get_by_label("Filter jobs")).to_have_value("gpu")
    admin_page.get_by_label("Filter jobs").fill("gpu executor:crm")
    admin_page.keyboard.press("Enter")
    expect(admin_page.get_by_role("heading", name="No job matches")).to_be_visible()
    admin_page.get_by_role("link", name="Show all jobs").click()
    expect(admin_page.locator("tbody tr")).not_to_have_count(0)


def test_a_live_update_keeps_what_is_typed_and_focused(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/jobs?q=infra")
    expect(admin_page.locator("[data-live-state]")).to_have_attribute("data-state", "on")
    link = admin_page.get_by_role("link", name="log-rotate", exact=True)
    link.focus()
    with admin_page.expect_response(lambda answer: answer.request.headers.get("x-block") == "rows"):
        admin_page.evaluate("() => document.body.dispatchEvent(new CustomEvent('live:jobs'))")

    expect(link).to_be_focused()
    expect(admin_page.get_by_label("Filter jobs")).to_have_value("infra")


def test_the_keyboard_leads_everywhere(admin_page: Page, console: Console) -> None:
    scripts_are_ready = admin_page.locator("html[data-ready]")
    admin_page.goto(f"{console.url}/jobs")
    expect(scripts_are_ready).to_be_attached()
    admin_page.keyboard.press("j")
    admin_page.keyboard.press("j")
    expect(admin_page.locator("tr.current")).to_have_attribute(
        "id", f"job-{console.ids['job:cert-renewal']}"
    )
    admin_page.keyboard.press("Enter")
    expect(admin_page).to_have_url(re.compile(r"/jobs/\d+$"))
    expect(scripts_are_ready).to_be_attached()
    admin_page.keyboard.press("g")
    admin_page.keyboard.press("r")
    expect(admin_page).to_have_url(re.compile("/runs$"))
    expect(scripts_are_ready).to_be_attached()
    admin_page.keyboard.press("?")
    expect(admin_page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    admin_page.keyboard.press("Escape")
    admin_page.keyboard.press("Control+k")
    admin_page.keyboard.type("churn")
    admin_page.keyboard.press("Enter")  # before the answer is there
    expect(admin_page).to_have_url(re.compile(rf"/jobs/{console.ids['job:churn-scoring']}$"))
    expect(scripts_are_ready).to_be_attached()
    admin_page.keyboard.press("Control+k")
    admin_page.keyboard.type(f"#{console.ids['run:failed']}")
    admin_page.keyboard.press("Enter")
    expect(admin_page).to_have_url(re.compile(rf"/runs/{console.ids['run:failed']}$"))


def palette_of(page: Page, text: str) -> list[str]:
    """The lines of the palette for a text, when the server has answered."""
    if not page.locator("#palette").is_visible():
        page.keyboard.press("Control+k")
    with page.expect_response(lambda answer: f"q={urllib.parse.quote(text)}" in answer.url):
        page.get_by_role("combobox", name="Search jobs").fill(text)
    page.wait_for_function("() => document.querySelector('#palette-list li, .palette-none')")
    return [
        " | ".join(line.split("\n")) for line in page.locator("#palette-list li").all_inner_texts()
    ]


def test_the_palette_finds_things_actions_and_words(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/jobs/{console.ids['job:cert-renewal']}")
    for text, begins in (
        ("billing", "billing"),
        ("misfire", "Missed fires"),
        ("阻塞处理策略", "If the one before still runs"),
        ("报警", "Needs attention"),
        ("GLUE", "Handler"),
        ("jobdetail", "Job"),
    ):
        assert palette_of(admin_page, text)[0].startswith(begins), text
    assert any(
        "Missed fires | docs/schedules.md" in line for line in palette_of(admin_page, "missed")
    )
    assert palette_of(admin_page, "run now")[0].startswith("Run now | On this page")
    assert any("docs/jobs.md" in line for line in palette_of(admin_page, "丢弃后续调度"))
    assert palette_of(admin_page, "resume")[0].startswith("Resume | On this page")
    pauses = palette_of(admin_page, "pause")
    assert {"Pause everything", "Pause live updates"} <= {
        line.partition(" | ")[0] for line in pauses
    }

    # An action does what its button does.
    palette_of(admin_page, "dark")
    admin_page.keyboard.press("Enter")
    expect(admin_page.locator("html")).to_have_attribute("data-theme", "dark")
    palette_of(admin_page, "light")
    admin_page.keyboard.press("Enter")
    expect(admin_page.locator("html")).to_have_attribute("data-theme", "light")
    palette_of(admin_page, "run now")
    admin_page.keyboard.press("Enter")
    expect(admin_page.locator("#modal")).to_be_visible()
    admin_page.keyboard.press("Escape")

    # A word leads to the field, in the part of the form that it opens.
    palette_of(admin_page, "丢弃后续调度")
    admin_page.keyboard.press("Enter")
    expect(admin_page).to_have_url(re.compile("/jobs/new#overlap-fields$"))
    expect(admin_page.get_by_text("XXL-JOB: 丢弃后续调度.")).to_be_visible()
    expect(
        admin_page.get_by_text("XXL-JOB: 阻塞处理策略; Quartz: DisallowConcurrentExecution.")
    ).to_be_visible()


def test_theme_and_language_are_kept_without_a_flash(admin_page: Page, console: Console) -> None:
    admin_page.goto(console.url)
    admin_page.get_by_role("button", name="Theme").click()
    admin_page.get_by_role("menuitemradio", name="Dark").click()
    colour = "() => getComputedStyle(document.documentElement).backgroundColor"
    assert admin_page.evaluate(colour) == "rgb(12, 14, 18)"
    admin_page.reload(wait_until="commit")
    expect(admin_page.locator("html")).to_have_attribute("data-theme", "dark")

    admin_page.get_by_role("button", name="Language").click()
    admin_page.get_by_role("menuitemradio", name="简体中文").click()
    expect(admin_page.get_by_role("heading", level=1)).to_have_text("总览")
    admin_page.get_by_role("button", name="语言").click()
    admin_page.get_by_role("menuitemradio", name="English").click()
    expect(admin_page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_job_is_added_with_its_schedule_in_words(admin_page: Page, console: Console) -> None:
    fill_new_job(admin_page, console, "monthly-statement")
    admin_page.get_by_role("button", name=re.compile("^Cron")).click()
    admin_page.get_by_label("Cron expression").fill("0 9 * * 1-8")
    preview = admin_page.locator("#trigger0-preview")
    expect(preview.locator(".error-text")).to_contain_text("“8” at character 11")
    admin_page.get_by_label("Cron expression").fill("30 9 * * 1-5")
    expect(preview).to_contain_text("09:30")
    expect(preview.locator("li")).to_have_count(6)
    expect(preview.locator("li").first).to_contain_text("Mon, Nov 23, 2026, 09:30:00")
    admin_page.get_by_label("Parameters", exact=True).fill('{"month": "2026-11"}')
    admin_page.get_by_role("button", name="Add the job").click()

    expect(admin_page.get_by_role("heading", level=1)).to_have_text("monthly-statement")
    expect(admin_page.locator(".toast")).to_contain_text("The job was added.")
    expect(admin_page.locator(".facts")).to_contain_text("30 9 * * 1-5")
    expect(admin_page.get_by_text('"month": "2026-11"')).to_be_visible()


def test_a_refused_form_keeps_what_was_typed(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected += ["422", "409"]
    fill_new_job(admin_page, console, "invoice-close")
    admin_page.get_by_label("Parameters").fill('{"month": }')
    unfold(admin_page, "wrong")
    admin_page.get_by_label("Timeout", exact=True).fill("soon")
    admin_page.get_by_role("button", name="Add the job").click()

    expect(admin_page.get_by_role("alert")).to_contain_text("Nothing was saved yet")
    # All that is wrong is told at once, the name that is taken too; the first of it has the focus.
    name = admin_page.get_by_label("Name", exact=True)
    expect(admin_page.locator("#f-name-problem")).to_contain_text("already has a job named")
    expect(name).to_be_focused()
    parameters = admin_page.get_by_label("Parameters")
    expect(parameters).to_have_value('{"month": }')
    expect(parameters).to_have_attribute("aria-invalid", "true")
    expect(admin_page.locator("#f-parameters-problem")).to_contain_text("line 1, column 11")
    expect(admin_page.locator("#f-timeout-problem")).to_contain_text("must be a number")

    name.fill("invoice-close-2")
    admin_page.get_by_role("button", name="Add the job").click()
    expect(admin_page.locator("#f-name-problem")).to_have_count(0)
    expect(parameters).to_be_focused()

    parameters.fill("{}")
    name.fill("invoice-close")
    admin_page.get_by_label("Timeout", exact=True).fill("2")
    admin_page.get_by_role("button", name="Add the job").click()
    expect(admin_page.locator("#f-name-problem")).to_contain_text("already has a job named")
    expect(admin_page.get_by_label("Timeout", exact=True)).to_have_value("2")


def test_a_stale_form_says_that_somebody_else_was_faster(
    admin_page: Page, context: BrowserContext, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("409")
    address = f"{console.url}/jobs/{console.ids['job:gdpr-erasure']}/edit"
    admin_page.goto(address)
    other = context.new_page()
    other.goto(address)
    unfold(other, "wrong")
    other.get_by_label("Retries").fill("5")
    other.get_by_role("button", name="Save changes").click()
    expect(other.locator(".facts")).to_contain_text("5×")

    unfold(admin_page, "wrong")
    admin_page.get_by_label("Retries").fill("1")
    admin_page.get_by_role("button", name="Save changes").click()
    expect(admin_page.get_by_role("alert")).to_contain_text("revision 2")
    expect(admin_page.get_by_label("Retries")).to_have_value("1")


def test_editing_changes_nothing_that_was_not_touched(admin_page: Page, console: Console) -> None:
    address = f"{console.url}/jobs/{console.ids['job:sync-salesforce']}"
    admin_page.goto(address)
    before = admin_page.locator(".facts").inner_text()
    admin_page.get_by_role("link", name="Edit").click()
    admin_page.get_by_role("button", name="Save changes").click()
    expect(admin_page.locator(".toast")).to_contain_text("The job was saved.")
    after = admin_page.locator(".facts").inner_text()

    assert after == before


def test_running_now_from_the_list_leads_to_the_run(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/jobs")
    button = admin_page.get_by_role("button", name="Run now: log-rotate")
    button.click()
    toast = admin_page.locator(".toast")
    expect(toast).to_contain_text(re.compile(r"Run #\d+ was added"))
    toast.get_by_role("link", name="Open it").click()
    expect(admin_page.get_by_role("heading", level=1)).to_contain_text("log-rotate")


def test_sending_a_form_twice_makes_one_run(admin_page: Page, console: Console) -> None:
    job = console.ids["job:log-rotate"]
    admin_page.goto(f"{console.url}/jobs/{job}/run")
    addresses = admin_page.evaluate(
        """async () => {
          const form = document.querySelector('main form');
          const send = () => fetch(form.action, {method: 'POST', body:
            new URLSearchParams(new FormData(form))}).then(answer => answer.url);
          return Promise.all([send(), send()]);
        }"""
    )

    assert addresses[0] == addresses[1]
    assert re.search(r"/runs/\d+$", addresses[0])


def test_run_now_refuses_what_is_no_json(
    admin_page: Page, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("422")
    admin_page.goto(f"{console.url}/jobs/{console.ids['job:log-rotate']}")
    admin_page.get_by_role("link", name="Run now").click()
    dialog = admin_page.get_by_role("dialog")
    dialog.get_by_label("Parameters").fill("[1]")
    dialog.get_by_role("button", name="Run now").click()
    expect(dialog.locator(".error-text")).to_contain_text("must be a JSON object")
    expect(dialog.get_by_label("Parameters")).to_have_value("[1]")
    dialog.get_by_label("Parameters").fill('{"n": 1}')
    dialog.get_by_role("button", name="Run now").click()
    expect(admin_page).to_have_url(re.compile(r"/runs/\d+$"))
    expect(admin_page.get_by_text('"n": 1')).to_be_visible()


def test_pausing_is_one_click_in_the_list(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/jobs")
    switch = admin_page.get_by_role("switch", name="Active: events-compact")
    expect(switch).to_have_attribute("aria-checked", "true")
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "false")
    admin_page.goto(f"{console.url}/jobs?view=paused")
    expect(admin_page.get_by_role("link", name="events-compact", exact=True)).to_be_visible()


def test_a_waiting_run_says_why(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/runs/{console.ids['run:waiting']}")
    expect(admin_page.locator(".notice").first).to_contain_text("try 2 of 4 begins at")


def test_names_of_any_kind_are_only_text(admin_page: Page, console: Console) -> None:
    fill_new_job(admin_page, console, PAYLOAD)
    unfold(admin_page, "more")
    admin_page.get_by_label("Owner").fill(PAYLOAD)
    admin_page.get_by_label("Tags").fill(f"{PAYLOAD}, {{{{7*7}}}}")
    admin_page.get_by_label("Description").fill(PAYLOAD)
    admin_page.get_by_label("Parameters").fill('{"html": "<script>window.__hacked=1</script>"}')
    admin_page.get_by_role("button", name="Add the job").click()
    expect(admin_page.get_by_role("heading", level=1)).to_have_text(PAYLOAD)
    address = admin_page.url
    for path in ("/", "/jobs", "/runs"):
        admin_page.goto(console.url + path)
    for ending in ("", "/edit", "/run", "/delete"):
        admin_page.goto(address + ending)
        expect(admin_page.locator("body")).to_contain_text("<img src=x")
        assert admin_page.evaluate("() => window.__hacked") is None
    expect(admin_page.locator("img")).to_have_count(0)


def test_a_viewer_sees_no_action_and_can_force_none(
    page: Page, context: BrowserContext, console: Console, page_errors: PageErrors
) -> None:
    console.open_as(context, "viewer")
    job = console.ids["job:invoice-close"]
    runs = [f"/runs/{console.ids[f'run:{name}']}" for name in ("failed", "fire-failed")]
    runs.append(f"/runs/{console.ids['run:still-running']}")
    executor = f"/executors/{console.ids['executor:ml']}"
    jobs = ("/jobs", f"/jobs/{job}", f"/jobs/{console.ids['job:stock-sync']}")
    for path in ("/", *jobs, "/runs", *runs, "/executors", executor, "/nodes/7", "/admins"):
        page.goto(console.url + path)
        main = page.get_by_role("main")
        assert (
            main.get_by_role(
                "link",
                name=re.compile(
                    "New|Edit|Delete|Run now|Release|Pause everything|Change|Clear|Purge|Rotate"
                ),
            ).count()
            == 0
        )
        assert main.locator("form:not([role=search])[method=post]").count() == 0
        assert main.locator("input[type=checkbox]").count() == 0
    page_errors.expected.append("403")
    answer = page.goto(f"{console.url}/jobs/new")
    assert answer is not None
    assert answer.status == 403
    expect(page.get_by_role("heading", level=1)).to_have_text("You may not do this")
    statuses = page.evaluate(
        """async (paths) => {
          const token = JSON.parse(document.body.getAttribute('hx-headers'))['X-CSRF-Token'];
          const post = {method: 'POST', headers: {'X-CSRF-Token': token}};
          return Promise.all(paths.map(async (path) => (await fetch(path, post)).status));
        }""",
        [
            f"/jobs/{job}/pause",
            f"/jobs/{job}/run",
            f"/jobs/{job}/state/clear",
            "/runs/purge",
            f"{executor}/delete",
            f"{executor}/token/revoke",
            f"{executor}/nodes/7/weight",
        ],
    )
    assert set(statuses) == {403}


@pytest.fixture
def without_script(browser: Browser, console: Console) -> BrowserContext:
    context = browser.new_context(java_script_enabled=False, locale="en-US")
    set_preference(context, console, "language", "en")
    return context


def test_the_console_works_without_script(without_script: BrowserContext, console: Console) -> None:
    page = without_script.new_page()
    page.goto(f"{console.url}/jobs")
    expect(page).to_have_url(re.compile(r"/login\?next=/jobs$"))
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile("/jobs$"))
    page.get_by_label("Filter jobs").fill("orders")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("switch", name="Active: orders-incremental").click()
    expect(page.get_by_role("status").first).to_contain_text("The job is paused.")
    expect(page.locator("tbody tr")).to_have_class("paused")
    page.get_by_role("link", name="orders-incremental", exact=True).click()
    page.get_by_role("link", name="Run now").click()
    page.get_by_label("Parameters").fill('{"day": 1}')
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("orders-incremental")
    expect(page.get_by_role("link", name="Open the log as text")).to_be_visible()
    page.get_by_role("link", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel 1 run").click()
    expect(page.locator(".page-head .badge").first).to_contain_text("Cancelled")
    page.goto(f"{console.url}/jobs/{console.ids['job:orders-incremental']}/edit")
    page.get_by_label("Name", exact=True).fill("")
    page.get_by_role("button", name="Save changes").click()
    expect(page.locator("#f-name-problem")).to_contain_text("This is required.")
    without_script.close()


def test_twelve_tabs_all_load_and_stay_live(context: BrowserContext, console: Console) -> None:
    console.open_as(context)
    tabs = [context.new_page() for _ in range(12)]
    for tab in tabs:
        tab.goto(f"{console.url}/runs")
    for tab in tabs:
        expect(tab.locator("[data-live-state]")).to_have_attribute("data-state", "on")
        tab.close()


def test_logging_out_ends_the_session(
    page: Page, context: BrowserContext, console: Console, page_errors: PageErrors
) -> None:
    page_errors.expected.append("401")
    page.goto(f"{console.url}/login")
    page.get_by_label("Name").fill("viewer")
    page.get_by_label("Password").fill("wrong password here")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("The name or the password is wrong.")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Log in").click()
    cookie = next(c["value"] for c in context.cookies() if c["name"] == "tickwheel_session")
    page.get_by_role("button", name="User menu").click()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login$"))

    request = urllib.request.Request(
        f"{console.url}/palette.json",
        headers={"Cookie": f"tickwheel_session={cookie}", "Sec-Fetch-Dest": "empty"},
    )
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request)
