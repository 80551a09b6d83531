"""What is made for documents: headings, OpenAPI, the schema of webhooks, parts of pages.

`python -m tests.support.documents` writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.support.references import (
    cli_reference,
    error_codes,
    routing_strategies,
    settings_reference,
    trigger_kinds,
)
from tests.support.references.made_parts import with_part
from tickwheel_admin.api.openapi.openapi import openapi
from tickwheel_admin.channels.webhook.payload import schema

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs/alarm-webhook.schema.json"
OPENAPI = ROOT / "docs/openapi.json"
INDEX = ROOT / "admin/tickwheel_admin/console/documents.json"
# Pages with a part that is made, and what makes it.
PARTS: dict[Path, Callable[[], str]] = {
    cli_reference.PAGE: cli_reference.reference,
    settings_reference.PAGE: settings_reference.table,
    error_codes.PAGE: error_codes.reference,
    **{
        page: partial(each.table, language)
        for each in (routing_strategies, trigger_kinds)
        for page, language in each.PAGES.items()
    },
}
_NAMES = (
    "jobs", "schedules", "secrets", "console", "operations", "guarantees", "configuration", "api",
    "security", "alarms",
)  # fmt: skip
_MOST_CHARS = 200


def sections() -> Iterator[dict[str, str]]:
    """Each heading of the second and third order, with how its text begins."""
    for name in _NAMES:
        text = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
        text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for part in re.split(r"^##", text, flags=re.MULTILINE)[1:]:
            heading, _, body = part.lstrip("#").strip().partition("\n")
            yield {"file": f"docs/{name}.md", "heading": heading, "begins": _begins(body)}


def _begins(body: str) -> str:
    paragraphs = (each.strip() for each in re.split(r"\n\s*\n", body))
    first = next((each for each in paragraphs if each and each[0] not in "|#*-<"), "")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", first).replace("*", "").replace("`", "")
    plain = " ".join(plain.split())
    if len(plain) <= _MOST_CHARS:
        return plain
    return plain[:_MOST_CHARS].rpartition(" ")[0] + " …"


def openapi_text() -> str:
    """The OpenAPI document as docs/ has it."""
    return json.dumps(openapi(), ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    OPENAPI.write_text(openapi_text(), encoding="utf-8")
    INDEX.write_text(
        json.dumps(list(sections()), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    SCHEMA.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
    for page, made in PARTS.items():
        page.write_text(with_part(page.read_text(encoding="utf-8"), made()), encoding="utf-8")


if __name__ == "__main__":
    main()
