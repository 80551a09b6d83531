"""The whole way, as a person goes it: a real admin, a real node process, only the console."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import unfold
from tests.support.processes import ManagedProcess, free_port

PASSWORD = "a wheel that ticks"
NODE = Path(__file__).parent / "kit/node_program.py"
TICKWHEEL = Path(sys.executable).with_name("tickwheel")

pytestmark = pytest.mark.slow


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Address and one-time password of a new installation."""
    port = free_port()
    command = [TICKWHEEL, "serve", "--port", port, "--data-dir", tmp_path / "data"]
    with ManagedProcess(command, tmp_path / "admin.log") as process:
        password = process.wait_for_line(r"with password +(\S+)", timeout_seconds=30)[1]
        yield f"http://127.0.0.1:{port}", password
        assert process.stop() == 0


@pytest.fixture
def patient(page: Page) -> Page:
    expect.set_options(timeout=15_000)
    return page


def log_in(page: Page, url: str, password: str) -> None:
    page.goto(url)
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Choose a password")).to_be_visible()
    page.get_by_label("Current password").fill(password)
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("New password again").fill(PASSWORD)
    page.get_by_role("button", name="Set the password").click()


def create_executor(page: Page) -> str:
    """Returns the token that the page shows."""
    page.get_by_role("link", name="New executor").click()
    page.get_by_label("Name").fill("billing")
    page.get_by_role("button", name="Create the executor").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The executor billing is ready")
    token = page.locator("#token").inner_text()
    assert len(token) >= 40
    program = page.get_by_label("node program", exact=True).inner_text()
    copied = page.get_by_role("button", name="Copy: node program").get_attribute("data-copy")
    assert copied is not None
    assert copied.split() == program.split()
    assert f'token="{token}"' in copied
    compile(copied, "pasted.py", "exec")
    return token


def add_job(page: Page, url: str, name: str, handler: str, *, every_seconds: int | None) -> str:
    """Returns the address of the job."""
    page.goto(f"{url}/jobs/new")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name=handler, exact=True).click()
    if every_seconds is not None:
        page.get_by_role("button", name=re.compile("^Fixed rate")).click()
        page.locator("#trigger0-rate").fill(str(every_seconds))
        page.locator("[name='trigger0.rate_unit']").select_option("s")
        expect(page.locator("#trigger0-preview li")).to_have_count(6)
    page.get_by_role("button", name="Add the job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    return page.url


def run_with(page: Page, job: str, parameters: str) -> str:
    """Run now with parameters; returns the address of the run."""
    page.goto(job)
    page.get_by_role("link", name="Run now").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Parameters").fill(parameters)
    dialog.get_by_role("button", name="Run now").click()
    expect(page).to_have_url(re.compile(r"/runs/\d+$"))
    return page.url


def test_a_page_notices_that_the_admin_went_and_came_back(
    patient: Page, page_errors: PageErrors, tmp_path: Path
) -> None:
    page, port = patient, free_port()
    url = f"http://127.0.0.1:{port}"
    command = [TICKWHEEL, "serve", "--port", port, "--data-dir", tmp_path / "data"]
    with ManagedProcess(command, tmp_path / "first.log") as process:
        password = process.wait_for_line(r"with password +(\S+)", timeout_seconds=30)[1]
        log_in(page, url, password)
        page.goto(f"{url}/executors")
        expect(page.locator("[data-live-state]")).to_have_attribute("data-state", "on")
        assert process.stop() == 0
    expect(page.locator("[data-live-state]")).to_have_attribute("data-state", "off")
    page_errors.expected += ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE", "htmx:sendError"]
    with ManagedProcess(command, tmp_path / "second.log") as process:
        process.wait_for_http(f"{url}/healthz", timeout_seconds=30)
        with page.expect_response(lambda answer: "x-block" in answer.request.headers):
            pass  # what it missed is fetched without being asked for
        expect(page.locator("[data-live-state]")).to_have_attribute("data-state", "on")
        page.goto("about:blank")
        assert process.stop() == 0


def test_from_the_first_login_to_a_retried_run(
    patient: Page,
    admin: tuple[str, str],
    tmp_path: Path,
    page_errors: PageErrors,
) -> None:
    page, (url, one_time) = patient, admin
    log_in(page, url, one_time)
    expect(page.get_by_role("heading", level=1)).to_have_text("Three steps to your first run")
    token = create_executor(page)
    page.goto(url)
    expect(page.locator(".steps .done")).to_have_count(1)

    node = ManagedProcess(
        [sys.executable, NODE],
        tmp_path / "node.log",
        environment={
            "JOURNEY_ADMIN": url,
            "JOURNEY_EXECUTOR": "billing",
            "JOURNEY_TOKEN": token,
            "JOURNEY_SPOOL": str(tmp_path / "spool"),
        },
    )
    with node:
        expect(page.locator(".steps .done")).to_have_count(2)  # without a reload
        job = add_job(page, url, "count-invoices", "count", every_seconds=2)

        # It fires by itself, and the page shows it without a reload.
        succeeded = page.locator("table [data-state=succeeded]")
        expect(succeeded).not_to_have_count(0)
        page.get_by_role("switch", name="Active: count-invoices").click()
        expect(page.locator(".page-head .badge").first).to_have_text("Paused")

        # Other parameters, and the log while it is being written.
        run_with(page, job, '{"to": 40}')
        expect(page.locator(".log-line").nth(2)).to_contain_text("line 3 of 40 <b>not bold</b>")
        seen = page.locator(".log-line").count()
        assert seen < 40
        expect(page.locator("#L12")).to_be_attached()
        expect(page.locator(".page-head [data-state=running]")).to_be_visible()
        expect(page.locator(".progress-line")).to_contain_text("of 40")

        page.get_by_role("link", name="Cancel").click()
        page.get_by_role("button", name="Cancel 1 run").click()
        expect(page.locator(".page-head [data-state=cancelled]")).to_be_visible()
        expect(page.get_by_role("button", name="Run again")).to_be_visible()

        # A failure, found on the overview and retried, first as it was and then with edits.
        broken = add_job(page, url, "ask-the-bank", "break", every_seconds=None)
        run_with(page, broken, "{}")
        expect(page.locator(".page-head [data-state=failed]")).to_be_visible()
        expect(page.locator(".notice pre")).to_contain_text("the bank did not answer")
        page.goto(url)
        failure = page.get_by_role("region", name="Recent failures")
        failure.get_by_role("link", name="ask-the-bank").click()
        failed_run = page.url
        page.get_by_role("button", name="Retry").click()
        expect(page).not_to_have_url(failed_run)
        expect(page.locator(".page-head [data-state=failed]")).to_be_visible()
        page.get_by_role("link", name="Run again with edits").click()
        page.get_by_role("dialog").get_by_label("Parameters").fill('{"fail": false}')
        page.get_by_role("dialog").get_by_role("button", name="Run again").click()
        expect(page.locator(".page-head [data-state=succeeded]")).to_be_visible()
        expect(page.locator(".facts")).to_contain_text("Retry")

        # The log goes on with the next attempt while the page stays open.
        page.goto(f"{broken}/edit")
        unfold(page, "wrong")
        page.get_by_label("Retries").fill("1")
        page.get_by_label("Wait before a retry").fill("6")
        page.get_by_role("button", name="Save changes").click()
        expect(page.locator(".facts").first).to_contain_text("1×")
        run_with(page, broken, "{}")
        expect(page.locator(".page-head [data-state=retrying]")).to_be_visible()
        expect(page.locator("#L1")).to_contain_text("about to fail")
        lines = page.locator(".log-line").count()
        first_began = page.locator("#L1 time").get_attribute("datetime") or ""
        expect(page.locator(".page-head [data-state=failed]")).to_be_visible()
        attempts = page.get_by_role("region", name="Attempts").get_by_role("listitem")
        expect(attempts).to_have_count(2)
        expect(page.locator("#L1 time")).not_to_have_attribute("datetime", first_began)
        expect(page.locator(".log-line")).to_have_count(lines)
        attempts.last.get_by_role("link").click()
        expect(page.get_by_role("link", name="Show the latest")).to_be_visible()
        expect(page.locator("#L1 time")).to_have_attribute("datetime", first_began)

        # Edit and delete.
        page.goto(job)
        page.get_by_role("link", name="Edit").click()
        page.get_by_role("button", name="Remove trigger 1").click()
        expect(page.locator(".trigger-card")).to_have_count(0)
        unfold(page, "where")
        page.get_by_label("Least busy").check()
        page.get_by_role("button", name="Save changes").click()
        expect(page.locator(".facts")).to_contain_text("Least busy")
        expect(page.locator(".facts").first).to_contain_text("By hand only")
        page.get_by_role("link", name="Delete").click()
        page_errors.expected.append("404")  # a live part is fetched once more before one leaves
        page.get_by_role("button", name="Delete 1 job").click()
        expect(page).to_have_url(f"{url}/jobs")
        expect(page.locator("tbody tr")).to_have_count(1)

        # The executor's page shows the node, and that it goes.
        page.goto(f"{url}/executors")
        page.get_by_role("link", name="billing").click()
        live = page.get_by_role("region", name="Live nodes")
        expect(live.locator("tbody tr")).to_have_count(1)
        assert node.stop() == 0
        expect(page.get_by_role("heading", name="No node is connected")).to_be_visible()
        expect(page.get_by_text("Said goodbye")).to_be_visible()

    page.goto("about:blank")  # a page that is still open would miss the admin as it stops
