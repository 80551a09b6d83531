"""The table of trigger kinds in docs/schedules.md and its Chinese page, made from the kinds.

`tests.support.documents` writes it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.support.translations.product_texts import ENGLISH, SIMPLIFIED, in_language
from tickwheel_admin.domain.triggers.kinds import KINDS
from tickwheel_admin.domain.triggers.spec import TriggerSpec, WallTimeSpec

_DOCS = Path(__file__).parents[3] / "docs"
PAGES = {  # with their languages
    _DOCS / "schedules.md": ENGLISH,
    _DOCS / "schedules.zh-CN.md": SIMPLIFIED,
}
_HEADS = {
    ENGLISH: "| kind | name | when it fires | its fields |",
    SIMPLIFIED: "| 类型 | 名称 | 何时触发 | 字段 |",
}
_FOR_CLOCK_CHANGES = ("gap", "overlap")
_COMMAS = {ENGLISH: ", ", SIMPLIFIED: "、"}


def table(language: str) -> str:
    """A row for each kind, in the order in which people are offered them."""
    lines = [_HEADS[language], "|---|---|---|---|"]
    for kind, spec in KINDS.items():
        name, hint = spec.name_and_hint(partial(in_language, language=language))
        fields = _COMMAS[language].join(f"`{each}`" for each in _fields(spec))
        lines.append(f"| `{kind}` | {name} | {hint} | {fields} |")
    return "\n".join(lines)


def _fields(spec: type[TriggerSpec]) -> list[str]:
    """Those that not every kind has, as requests name them."""
    own = [name for field in spec.own_fields(str) for name in field.names]
    return [*own, *_FOR_CLOCK_CHANGES] if issubclass(spec, WallTimeSpec) else own
