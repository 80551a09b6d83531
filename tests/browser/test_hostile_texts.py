"""Every page, when every stored text is an attack: all of it is shown as text, none of it acts.

By day the browser opens those that must show the texts and those with markup of their own, and asks
for all others as the server sends them. By night it opens all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page

from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console, sample_console, stop_time, wait_until_live
from tests.browser.kit.hostile_texts import PAYLOAD
from tests.browser.test_looks import OF_THEIR_OWN, pages_of
from tests.support.nightly import IS_NIGHT

# Elements that no page of ours has, and what the payload would have left behind.
INTRUDERS = """() => [
  ...document.querySelectorAll('img, iframe, object, embed, svg[onload], script:not([src])'),
].map(element => element.outerHTML.slice(0, 120)).concat(window.__hacked ? ['it ran'] : [])"""

# Pages that must show texts of others, or the test would prove nothing.
TELLING = {"overview", "jobs", "job", "runs", "run", "node", "audit", "users", "tokens"}
TELLS = "() => document.querySelector('main').innerHTML.includes('onerror')"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with sample_console(tmp_path_factory.mktemp("hostile"), "hostile") as console:
        yield console


def test_no_stored_text_is_more_than_text(
    page: Page, context: BrowserContext, console: Console, page_errors: PageErrors
) -> None:
    # There is no such secret here: names of secrets are plain.
    page_errors.expected += ["/nothing", "/secrets/SMTP_PASSWORD/delete"]
    dialogs: list[str] = []

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    console.open_as(context)
    stop_time(page)
    pages = {
        name: path
        for name, path in pages_of(console).items()
        if IS_NIGHT or name in (*OF_THEIR_OWN, *TELLING)
    }
    found, telling = {}, set()
    for name, path in pages.items():
        answer = page.goto(console.url + path)
        assert answer is not None
        assert answer.status < 500, name
        wait_until_live(page)
        if intruders := page.evaluate(INTRUDERS):
            found[name] = intruders
        if page.evaluate(TELLS):
            telling.add(name)

    assert found == {}
    assert dialogs == []
    # Most pages show texts of others; the rest are forms and lists without a match.
    assert len(telling) > len(pages) * 2 / 3
    assert telling >= TELLING


def test_no_stored_text_is_sent_as_markup(context: BrowserContext, console: Console) -> None:
    console.open_as(context)
    for name, path in pages_of(console).items():
        answer = context.request.get(console.url + path)
        assert answer.status < 500, name
        html = answer.text()
        assert PAYLOAD not in html, name
        assert "54439" not in html, name  # what templates would make of it
