"""The headings of the documents, which come with the source and not with the console.

`documents.json` is written by `python -m tests.support.documents`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading of a document and how the text behind it begins."""

    file: str  # “docs/jobs.md”
    heading: str
    begins: str  # plain text, at most some 200 characters

    @property
    def anchor(self) -> str:
        """Its place on the help page."""
        text = f"{self.file.rpartition('/')[2].removesuffix('.md')}-{self.heading}"
        return "doc-" + re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@cache
def sections() -> tuple[Section, ...]:
    """All of them, in the order of the documents."""
    text = files("tickwheel_admin.console").joinpath("documents.json").read_text(encoding="utf-8")
    return tuple(Section(**each) for each in json.loads(text))
