"""How plans of imports look: signs, indents, and what many have in common told once."""

from __future__ import annotations

import textwrap

from tickwheel_admin.domain.imports.fate import Fate

WIDTH = 80
SIGNS = {Fate.CREATED: "+", Fate.CHANGED: "~", Fate.UNCHANGED: "=", Fate.CANNOT: "!"}
LEGEND = "+ create   ~ change   = unchanged   ! cannot"


def wrapped(text: str, indent: str) -> list[str]:
    """A paragraph of 80 columns, where names allow it."""
    if 0 < len(text) <= WIDTH and text.isprintable():  # most are, and are told by the ten thousand
        return [text.rstrip()]
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def counts_head() -> str:
    """The first line of the table of how many there are of each fate."""
    return f"{'':12}{'create':>10}{'change':>10}{'unchanged':>12}{'cannot':>10}"


def counts_line(word: str, counts: dict[Fate, int]) -> str:
    """A line of that table."""
    return (
        f"{word:12}{counts.get(Fate.CREATED, 0):>10,}{counts.get(Fate.CHANGED, 0):>10,}"
        f"{counts.get(Fate.UNCHANGED, 0):>12,}{counts.get(Fate.CANNOT, 0):>10,}"
    )
