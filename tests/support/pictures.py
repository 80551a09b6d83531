"""The pictures in the documents, taken of the real console: `python -m tests.support.pictures`.

The console and its services are those of the product; what they show is the sample of the browser
tests, whose time stands still, so that two runs give the same pictures. Names choose some.
"""

from __future__ import annotations

import argparse
import re
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.kit.consoles import Console, sample_console, stop_time, wait_until_live
from tests.support.browsers import STABLE_PICTURE_FLAGS, find_chromium

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDTH = 1440


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One picture of a page of the console, in the light theme."""

    name: str  # of its file, without .png
    path: str  # of the page; {job:NAME} stands for an id of the sample
    height: int
    prepare: Callable[[Page], None] = lambda _page: None


def _select_three_jobs(page: Page) -> None:
    for name in ("backup-postgres", "churn-scoring", "customer-cache"):
        page.get_by_role("row").filter(has_text=name).get_by_role("checkbox").first.check()
    page.get_by_text("3 selected").wait_for()


def _follow_the_log(page: Page) -> None:
    page.get_by_text("#481155").first.wait_for()


PICTURES = (
    Picture(name="overview", path="/", height=1120),
    Picture(name="jobs", path="/jobs", height=740, prepare=_select_three_jobs),
    Picture(name="run", path="/runs/{run:events-compact}", height=860, prepare=_follow_the_log),
    Picture(name="workflow-run", path="/runs/{run:weekly-load}", height=860),
    Picture(name="executor", path="/executors/{executor:ml}", height=800),
    Picture(name="calendar", path="/calendar", height=800),
    Picture(name="failure", path="/alarms/failures/{failure:acquirer}", height=790),
    Picture(name="failed-run", path="/runs/{run:failed}", height=760),
    Picture(name="trends", path="/trends", height=900),
)


def take(browser: Browser, console: Console, picture: Picture) -> bytes:
    """The picture as PNG."""
    context = browser.new_context(
        locale="en-US",
        timezone_id="Europe/Berlin",
        viewport={"width": WIDTH, "height": picture.height},
        color_scheme="light",
        reduced_motion="reduce",
    )
    try:
        console.open_as(context)
        page = context.new_page()
        stop_time(page)
        path = re.sub(r"\{(\w+:[\w-]+)\}", lambda each: str(console.ids[each[1]]), picture.path)
        for _ in range(2):  # the first page tells the console the zone of its reader
            page.goto(console.url + path)
            wait_until_live(page)
        picture.prepare(page)
        page.mouse.move(0, 0)
        page.evaluate("() => document.fonts.ready.then(() => null)")
        return smaller(page.screenshot(animations="disabled"))
    finally:
        context.close()


def smaller(png: bytes) -> bytes:
    """The same picture, compressed as well as zlib can; browsers compress fast instead."""
    kept, data, place = [png[:8]], b"", 8
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        kind, body = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        if kind == b"IDAT":
            data += body
        elif kind == b"IEND":
            kept += [_chunk(b"IDAT", zlib.compress(zlib.decompress(data), 9)), _chunk(kind, b"")]
        else:
            kept.append(_chunk(kind, body))
        place += 12 + length
    return b"".join(kept)


def _chunk(kind: bytes, body: bytes) -> bytes:
    check = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)


def main() -> int:
    parser = argparse.ArgumentParser(description="Take the pictures in docs/images.")
    parser.add_argument("names", nargs="*", help="which (all)")
    names = parser.parse_args().names or [each.name for each in PICTURES]
    if unknown := set(names) - {each.name for each in PICTURES}:
        parser.error(f"there is no picture {', '.join(sorted(unknown))}")
    executable = find_chromium()
    if executable is None:
        print("no Chromium is installed", file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory() as directory,
        sample_console(Path(directory)) as console,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=executable, args=list(STABLE_PICTURE_FLAGS)
        )
        for picture in PICTURES:
            if picture.name in names:
                content = take(browser, console, picture)
                (IMAGES / f"{picture.name}.png").write_bytes(content)
                print(f"{picture.name}.png: {len(content) // 1024} KiB")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
