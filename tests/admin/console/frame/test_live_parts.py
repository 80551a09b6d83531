"""Parts of pages that fetch themselves again must not hold up what people do within them."""

from __future__ import annotations

import re
from pathlib import Path

import tickwheel_admin

TEMPLATES = Path(tickwheel_admin.__file__).parent / "console/templates"


def test_what_is_within_a_live_part_does_not_wait_in_its_queue() -> None:
    # htmx lets what is within inherit `hx-sync`, also forms: in a queue of which only the last
    # request is sent, the next refresh would take the place of a click.
    open_queues = [
        f"{path.relative_to(TEMPLATES)}: {tag[0]}"
        for path in sorted(TEMPLATES.rglob("*.html"))
        for tag in re.finditer(r"hx-sync=\"this:(queue last|drop)\"[^>]*>", path.read_text())
        if 'hx-disinherit="hx-sync"' not in tag[0]
    ]

    assert open_queues == []
