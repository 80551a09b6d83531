"""Where a command prints to: how wide it is, whether in colours, in which zone its reader is."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TextIO

from tickwheel_admin.cli.client.output.words import visible

_COLOUR = re.compile("(\x1b\\[[0-9;]{0,20}m)")
_COLOURS = {
    "succeeded": "32",
    "live": "32",
    "enabled": "32",
    "done": "32",
    "failed": "31",
    "timed_out": "31",
    "lost": "31",
    "dead": "31",
    "error": "31",
    "running": "36",
    "dispatched": "36",
    "ready": "33",
    "queued": "33",
    "waiting": "33",
    "warning": "33",
    "paused": "33",
    "cancelled": "2",
    "skipped": "2",
    "gone": "2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What is known of the reader."""

    columns: int | None  # of the terminal; None: not a terminal, nothing is cut
    colours: bool
    zone: tzinfo | None = None  # None: that of the machine

    def coloured(self, text: str, word: str) -> str:
        """The text in the colour of a state or severity."""
        code = _COLOURS.get(word)
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours and code else text

    def strong(self, text: str) -> str:
        """The text in bold."""
        return f"\x1b[1m{text}\x1b[0m" if self.colours else text

    def now(self) -> datetime:
        """In the reader's zone."""
        return datetime.now(self.zone).astimezone(self.zone)


def logged(text: str, style: Style) -> str:
    """A line of a log: on a terminal its colours, and no other character that a terminal obeys."""
    if style.columns is None:
        return text
    if not style.colours:
        return visible(_COLOUR.sub("", text), lines=True)
    parts = _COLOUR.split(text)  # every second one is a colour
    safe = [part if index % 2 else visible(part, lines=True) for index, part in enumerate(parts)]
    return "".join(safe) + ("\x1b[0m" if len(parts) > 1 else "")


def style_of(out: TextIO, environment: Mapping[str, str] | None = None) -> Style:
    """The style for a stream: colours only on a terminal, and not with NO_COLOR or TERM=dumb."""
    environment = os.environ if environment is None else environment
    if not out.isatty():
        return Style(columns=None, colours=False)
    dull = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
    return Style(columns=shutil.get_terminal_size().columns, colours=not dull)
