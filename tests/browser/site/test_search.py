"""The search of the documents' site, in both languages."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

ROOT = Path(__file__).parents[3]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built from the documents as they are."""
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "docs/site/build.py"), str(built)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    pages = partial(_Quiet, directory=str(built / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("words", "page_found", "heading"),
    [
        ("断联", "zh/jobs.html", "节点断联时"),  # a word within a heading
        ("空闲槽位", "zh/jobs.html", "选择哪个节点"),  # two words within a sentence
        ("misfire", "schedules.html", "Missed fires"),
    ],
)
def test_words_are_found(page: Page, site: str, words: str, page_found: str, heading: str) -> None:
    page.goto(f"{site}/index.html")
    page.keyboard.press("/")
    page.get_by_role("combobox").or_(page.get_by_role("textbox")).first.fill(words)

    found = page.locator(f"a[href*='{page_found}']").filter(has_text=heading)
    expect(found.first).to_be_visible()
