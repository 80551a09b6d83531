"""Parts of pages that fetch themselves again must not hold up what people do within them."""

from __future__ import annotations

import re
from pathlib import Path

import tickwheel_admin
from tickwheel_admin.console.frame import live

CONSOLE = Path(tickwheel_admin.__file__).parent / "console"
TEMPLATES, STATIC = CONSOLE / "templates", CONSOLE / "static"


BY_HAND = (
    "job_form/routing.html"  # it follows the fields of its form too, and holds nothing to click
)


def test_parts_that_fetch_themselves_again_are_written_with_the_macro() -> None:
    # htmx lets what is within inherit most attributes; `ui.live` stops that, see there.
    told = {
        str(path.relative_to(TEMPLATES))
        for path in sorted(TEMPLATES.rglob("*.html"))
        if re.search(
            r'hx-sync="this:(queue last|drop)|hx-trigger="[^"]*(live:|every \d|every {)',
            path.read_text(),
        )
    }

    assert told == {"frame/macros.html", BY_HAND}


def test_every_topic_that_is_told_is_listened_for() -> None:
    told = {name for names in live.TOPICS.values() for name in names}
    for script in ("live.js", "live-worker.js"):
        heard = re.search(r"const TOPICS = \[(.*)\];", (STATIC / "js" / script).read_text())
        assert heard is not None, script
        assert set(re.findall(r"'(\w+)'", heard[1])) == told, script


def test_live_parts_wait_for_topics_that_are_told() -> None:
    told = {name for names in live.TOPICS.values() for name in names}
    unknown = [
        (path.name, topic)
        for path in TEMPLATES.rglob("*.html")
        for _block, topics in re.findall(
            r"ui\.live\(.*, '([\w-]+)', '([\w -]+)'.*\)", path.read_text()
        )
        for topic in topics.split()
        if topic.removesuffix("-calm") not in told
    ]

    assert unknown == []
