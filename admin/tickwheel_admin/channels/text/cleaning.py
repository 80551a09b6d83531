"""Texts from outside, made safe to show: names, error lines and the like may hold anything.

Escaping for a format comes on top of this, and is the format's own matter.
"""

from __future__ import annotations

import re
import unicodedata

NAME_CHARS = 120
LINE_CHARS = 400
TEXT_CHARS = 1_500
TEXT_LINES = 20
_CUT = "…"
_FIRST_STRONG, _END_OF_ISOLATE = "\u2068", "\u2069"
# Invisible, but scripts and emoji need them.
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")
_UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))
_RIGHT_TO_LEFT = frozenset(("R", "AL", "AN"))
_SPACES = re.compile(r"\s+")

# Markdown of DingTalk and WeCom, and the services behind Apprise, have no escapes that all of their
# clients know, so what could be markup is told by letters that look like it.
_LOOKALIKES = str.maketrans(
    {
        "*": "＊", "`": "｀", "[": "［", "]": "］", "<": "＜", ">": "＞", "|": "｜", "~": "～",
        "\\": "＼", "@": "＠", "&": "＆",
    }
)  # fmt: skip
# Within a word, as in nightly_report, an underscore is no markup.
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
# At the start of a line: headings, lists, rules.
_LINE_MARK = re.compile(r"^(\s*(?:\d+)?)([#+=.)-]+)(?=\s|$)", re.MULTILINE)
_LINE_MARKS = str.maketrans({"#": "＃", "+": "＋", "=": "＝", "-": "－", ".": "．", ")": "）"})
# "https://x" without markup is made a link by most clients: an address somebody else chose.
_SCHEME = re.compile(r"(?<=[A-Za-z0-9]):(?=//)")


def clean(text: object, limit: int = LINE_CHARS) -> str:
    """One line of at most `limit` characters, with nothing invisible or reordering in it."""
    shown = "".join(_visible(char) for char in str(text)[: limit * 4])
    shown = _SPACES.sub(" ", shown).strip()
    return _isolated(clip(shown, limit))


def clean_lines(text: str, limit: int = TEXT_CHARS) -> tuple[str, ...]:
    """The same for a text on several lines; at most 20 of them."""
    lines = [clean(line, limit) for line in text[: limit * 2].splitlines()]
    kept: list[str] = []
    for line in lines:
        if not line and (not kept or not kept[-1]):
            continue
        if len(kept) == TEXT_LINES or limit <= 0:
            kept.append(_CUT)
            break
        kept.append(clip(line, limit))
        limit -= len(line)
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)


def clip(text: str, limit: int) -> str:
    """At most `limit` characters, the last one an ellipsis when there were more."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + _CUT


def lookalike(text: str) -> str:
    """The text without any letter that Markdown, mentions or links are made of."""
    text = _UNDERSCORE.sub("＿", text.translate(_LOOKALIKES))
    text = _SCHEME.sub("：", text)
    return _LINE_MARK.sub(lambda match: match[1] + match[2].translate(_LINE_MARKS), text)


def _visible(char: str) -> str:
    if char in _JOINERS:
        return char
    category = unicodedata.category(char)
    if category in _UNSEEN:
        return " " if char.isspace() or category == "Cc" else ""
    return " " if category == "Zs" else char


def _isolated(text: str) -> str:
    """Letters that run from right to left do not reorder what stands beside them."""
    if text.isascii() or not any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in text):
        return text
    return f"{_FIRST_STRONG}{text}{_END_OF_ISOLATE}"
