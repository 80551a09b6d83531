"""The table of routing strategies in docs/jobs.md and its Chinese page, made from their records.

`tests.support.documents` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.translations.product_texts import ENGLISH, SIMPLIFIED, in_language
from tickwheel_admin.domain.routing.strategies import STRATEGIES
from tickwheel_admin.domain.routing.strategy import Memory

_DOCS = Path(__file__).parents[3] / "docs"
PAGES = {_DOCS / "jobs.md": ENGLISH, _DOCS / "jobs.zh-CN.md": SIMPLIFIED}  # with their languages


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """What the table says beside the texts of the records."""

    head: str
    remembers: Mapping[Memory | None, str]


_WORDS = {
    ENGLISH: _Words(
        head="| `routing` | name | how it chooses | what it remembers |",
        remembers={
            None: "nothing",
            Memory.TURN: "whose turn it is",
            Memory.USES: "what each node had of the job; claims lock the job",
            Memory.BUSY: "which nodes run the job; claims lock the job",
        },
    ),
    SIMPLIFIED: _Words(
        head="| `routing` | 名称 | 如何选择 | 记住什么 |",
        remembers={
            None: "无",
            Memory.TURN: "轮到谁",
            Memory.USES: "每个节点运行过该任务的情况；领取时锁住任务",
            Memory.BUSY: "哪些节点正在运行该任务；领取时锁住任务",
        },
    ),
}


def table(language: str) -> str:
    """A row for each strategy, in the order in which people should meet them."""
    words = _WORDS[language]
    lines = [words.head, "|---|---|---|---|"]
    for strategy, record in STRATEGIES.items():
        title, hint = (in_language(each, language) for each in (record.title, record.hint))
        lines.append(f"| `{strategy}` | {title} | {hint} | {words.remembers[record.memory]} |")
    return "\n".join(lines)
