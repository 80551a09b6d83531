"""Consoles to test against: a filled one whose time stands still, and ways to log in."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page

from tests.browser.kit import console_server
from tests.browser.samples.world import NOW
from tests.support.forks import FORKS
from tests.support.processes import free_port

PASSWORD = "correct horse battery"
START_SECONDS = 120  # on a very busy machine


@dataclass(frozen=True, kw_only=True, eq=False)
class Console:
    """A running console and what a test needs to know of it."""

    url: str
    ids: dict[str, int]  # "job:…", "run:…", "executor:…"
    passwords: dict[str, str]  # one-time ones, by person
    cookies: dict[str, str]  # sessions of people who have chosen their password
    pid: int = 0  # of its process

    def open_as(self, context: BrowserContext, person: str = "admin") -> None:
        """Let the browser be logged in."""
        context.add_cookies(
            [{"name": "tickwheel_session", "value": self.cookies[person], "url": self.url}]
        )


@contextlib.contextmanager
def sample_console(
    directory: Path,
    filled: str = "",
    *,
    copy_of: Path | None = None,
    heartbeat_seconds: float | None = None,
) -> Iterator[Console]:
    """The real console and services over a filled database; see `console_server`.

    Args:
        copy_of: the directory of another one, which has ended; costs a fraction of filling anew.
        heartbeat_seconds: how often a silent stream of events says something; None: as always.
    """
    if copy_of is not None:
        shutil.copytree(copy_of, directory, dirs_exist_ok=True)
    known = directory / "known.json"
    with _served(directory, filled, heartbeat_seconds) as (url, pid, told):
        if not known.exists():
            cookies = {
                person: choose_password(url, person, password)
                for person, password in told["passwords"].items()
                if person != "newcomer"
            }
            known.write_text(json.dumps({**told, "cookies": cookies}))
        yield Console(url=url, pid=pid, **json.loads(known.read_text()))


@contextlib.contextmanager
def _served(
    directory: Path, filled: str, heartbeat_seconds: float | None
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """A console that listens until the end of the block: its address, its process, what it told."""
    port = free_port()
    log = directory / f"console-{port}.log"
    receiver, sender = FORKS.Pipe(duplex=False)
    process = FORKS.Process(
        target=console_server.serve,
        args=(directory, port, log, filled, heartbeat_seconds, sender),
        daemon=True,
    )
    process.start()
    sender.close()
    assert process.pid is not None
    try:
        with receiver:
            if not receiver.poll(START_SECONDS):
                raise TimeoutError(f"the console does not listen after {START_SECONDS} s")
            try:
                told = receiver.recv()
            except EOFError:
                raise AssertionError(f"the console has ended:\n{log.read_text()}") from None
        yield f"http://127.0.0.1:{port}", process.pid, told
    finally:
        process.kill()
        process.join()
        process.close()


def choose_password(url: str, person: str, one_time: str) -> str:
    """Log in for the first time, as a browser would; returns the session cookie."""
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))

    def post(path: str, **fields: str) -> str:
        body = urllib.parse.urlencode(fields).encode()
        with opener.open(url + path, body) as answer:
            return str(answer.read().decode())

    form = post("/login", name=person, password=one_time)
    token = re.search(r'name="csrf_token" value="([^"]+)"', form)
    assert token is not None, form
    post("/password", csrf_token=token[1], old=one_time, new=PASSWORD, again=PASSWORD)
    return next(str(cookie.value) for cookie in jar if cookie.name == "tickwheel_session")


_LIVE = """() => new Promise((done, failed) => {
  const look = () => {
    if (document.querySelector('[data-live-state]')?.dataset.state !== 'on') return;
    clearInterval(timer);
    done();
  };
  const timer = setInterval(look, 20);
  setTimeout(() => failed(new Error('the page is not live')), 10_000);
  look();
})"""


def wait_until_live(page: Page) -> None:
    """Wait until a page is live. A locator would bring Playwright's own script into each page."""
    page.evaluate(_LIVE)


def stop_time(page: Page) -> None:
    """Let the browser's clock say what the sample's says; its timers go on."""
    page.clock.set_fixed_time(NOW / 1000)


def set_preference(context: BrowserContext, console: Console, name: str, value: str) -> None:
    """Choose a theme or a language."""
    context.add_cookies([{"name": f"tickwheel_{name}", "value": value, "url": console.url}])


def unfold(page: Page, *parts: str) -> None:
    """Open folded parts of the job form: where, overlap, wrong, after, more."""
    for part in parts:
        fold = page.locator(f"#fold-{part}")
        if fold.get_attribute("open") is None:
            fold.locator("summary").first.click()
