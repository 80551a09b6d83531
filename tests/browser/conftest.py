"""Browser tests drive the system's Chromium; a page that breaks the CSP or logs an error fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page

from tests.browser.kit.consoles import Console, sample_console, stop_time
from tests.support.availability import unavailable
from tests.support.browsers import STABLE_PICTURE_FLAGS, find_chromium

_RECORD_VIOLATIONS = """
window.__violations = [];
document.addEventListener('securitypolicyviolation', event => {
  window.__violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`);
});
"""


@pytest.fixture(scope="session")
def base_url() -> str | None:
    """What relative addresses in `page.goto` start with; nothing unless a test module overrides it.

    The plugin's own is a fixture of a kind that pytest 9 warns about.
    """
    return None


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, object]) -> dict[str, object]:
    executable = find_chromium()
    if executable is None:
        unavailable("no Chromium is installed")
    return {
        **browser_type_launch_args,
        "executable_path": executable,
        "args": list(STABLE_PICTURE_FLAGS),
    }


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, object]) -> dict[str, object]:
    return {
        **browser_context_args,
        "locale": "en-US",
        "timezone_id": "Europe/Berlin",  # not UTC, so that a forgotten conversion shows
        "viewport": {"width": 1440, "height": 900},
        # Also turns view transitions off, which a fast navigation aborts with an error.
        "reduced_motion": "reduce",
    }


class PageErrors:
    """What went wrong on a page. A test that provokes an error names it in `expected`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        # A page left while a live part is being fetched: htmx reports the abort, and the end of
        # the request, as errors. What really fails is reported a second time by its own name.
        self.expected: list[str] = ["htmx:sendAbort", "htmx:afterRequest"]

    def unexpected(self) -> list[str]:
        return [text for text in self.seen if not any(known in text for known in self.expected)]


@pytest.fixture
def page_errors() -> PageErrors:
    return PageErrors()


@pytest.fixture
def page(page: Page, page_errors: PageErrors) -> Iterator[Page]:
    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            page_errors.seen.append(f"{message.text} ({message.location.get('url', '')})")

    page.add_init_script(_RECORD_VIOLATIONS)
    page.on("pageerror", lambda error: page_errors.seen.append(str(error)))
    page.on("console", on_console)
    yield page
    if not page.is_closed():
        violations = page.evaluate("() => window.__violations || []")
        assert not violations, f"CSP violations: {violations}"
    assert not page_errors.unexpected()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a filled console, to be copied."""
    directory = tmp_path_factory.mktemp("sample")
    with sample_console(directory):
        pass
    return directory


@pytest.fixture(scope="session")
def looked_at(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A filled console that tests only look at."""
    with sample_console(tmp_path_factory.mktemp("looked-at"), copy_of=sample) as console:
        yield console


@pytest.fixture(scope="module")
def console(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A filled console that the tests of one module may change."""
    with sample_console(tmp_path_factory.mktemp("console"), copy_of=sample) as console:
        yield console


@pytest.fixture
def admin_page(page: Page, context: BrowserContext, console: Console) -> Page:
    """A browser in which the admin is logged in; time stands still."""
    console.open_as(context)
    stop_time(page)
    return page


@pytest.fixture
def page_without_script(new_context: object, console: Console) -> Page:
    """A page of a browser without script, in which the admin is logged in."""
    # The plugin's factory closes what it opened.
    context: BrowserContext = new_context(java_script_enabled=False)  # type: ignore[operator]
    console.open_as(context)
    return context.new_page()
