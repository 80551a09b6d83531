"""The fenced blocks of a page, with the comments that say why one is not run."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
_FENCED = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^ *```$", re.M | re.S)
_MARK = re.compile(r"<!-- not run: (?P<why>[^\n]+) -->\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block."""

    page: Path
    line: int  # of its fence, from 1
    language: str  # "" when the fence names none
    text: str
    why_not: str | None  # the reason of its mark: what of it cannot be checked

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def pages() -> list[Path]:
    """The documents whose blocks are checked."""
    others = ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "docker/README.md")
    return [*(ROOT / name for name in others), *sorted((ROOT / "docs").glob("*.md"))]


def blocks_of(page: Path) -> Iterator[Block]:
    """Its blocks, in order."""
    content = page.read_text(encoding="utf-8")
    for found in _FENCED.finditer(content):
        before = content[: found.start()]
        mark = _MARK.search(before)
        yield Block(
            page=page,
            line=before.count("\n") + 1,
            language=found["language"],
            text=textwrap.dedent(found["text"]),
            why_not=mark["why"] if mark else None,
        )
