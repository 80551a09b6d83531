"""Values as people read them: instants in their time zone, lengths, and text without surprises."""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import datetime, tzinfo

NOTHING = "-"
# Control characters could move the cursor or recolour a terminal; the others reorder what is read.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str, *, lines: bool = False) -> str:
    """The text with each character that a terminal would obey written as its code.

    Args:
        lines: whether line breaks and tabs stay.
    """
    shown = _UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    return shown if lines else shown.replace("\n", "\\n").replace("\t", " ")


def plain(value: object) -> str:
    """Any value of an answer in a few words."""
    if value is None or value in ("", [], {}):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(plain(each) for each in value)
    if isinstance(value, dict):
        return visible(json.dumps(value, ensure_ascii=False))
    return visible(str(value))


def local_time(instant: object, zone: tzinfo | None) -> str:
    """An instant of an answer in the reader's zone, to the second; None: that of the machine."""
    if not isinstance(instant, str):
        return NOTHING
    return f"{datetime.fromisoformat(instant).astimezone(zone):%Y-%m-%d %H:%M:%S}"


def length(milliseconds: object) -> str:
    """A length of time in its two largest units."""
    if not isinstance(milliseconds, int | float):
        return NOTHING
    if milliseconds < 1000:
        return f"{milliseconds:.0f}ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f}s"
    minutes, seconds = divmod(int(milliseconds) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {seconds}s"


def between(start: object, end: object, now: datetime) -> str:
    """How long something took, or has taken until now."""
    if not isinstance(start, str):
        return NOTHING
    ended = datetime.fromisoformat(end) if isinstance(end, str) else now
    return length(max((ended - datetime.fromisoformat(start)).total_seconds() * 1000, 0))


def width_of(text: str) -> int:
    """Columns of a terminal: two for each wide character, none for marks over the one before."""
    if text.isascii():
        return len(text)
    return sum(_columns(each) for each in text)


def cut(text: str, columns: int) -> str:
    """The text in at most so many columns; `…` stands for what is left out."""
    if width_of(text) <= columns:
        return text
    used, kept = 1, []
    for each in text:
        used += _columns(each)
        if used > columns:
            break
        kept.append(each)
    return "".join(kept) + "…"


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """The text filled with spaces; `right`: in front of it."""
    space = " " * max(columns - width_of(text), 0)
    return space + text if right else text + space


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
