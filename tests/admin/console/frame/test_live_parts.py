"""Parts of pages that fetch themselves again must not hold up what people do within them."""

from __future__ import annotations

import re
from pathlib import Path

import tickwheel_admin

TEMPLATES = Path(tickwheel_admin.__file__).parent / "console/templates"


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
