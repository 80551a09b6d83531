"""Text that the wire and every database accept, and exceptions as text."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

_PACKAGE = str(Path(__file__).parent)


def clean(text: str) -> str:
    """Replace what UTF-8 or a database refuses: lone surrogates and NUL."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def cut(text: str, limit: int) -> str:
    """At most `limit` characters; a cut text ends with a note of its length."""
    if len(text) <= limit:
        return text
    mark = f" … [cut, {len(text)} characters]"
    return text[: limit - len(mark)] + mark


def exception_text(error: BaseException) -> str:
    """The exception's own message, even if its `__str__` fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (a failing __str__ must only fail the run)
        return "(its text cannot be shown)"


def describe(error: BaseException) -> str:
    """`Type: message`, as the last line of a traceback."""
    text = exception_text(error)
    name = type(error).__qualname__
    return f"{name}: {text}" if text else name


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it, from the handler on."""
    try:
        lines = traceback.format_exception(type(error), error, _own_frames(error.__traceback__))
    except Exception:  # noqa: BLE001 (likewise)
        return describe(error)
    return "".join(lines)


def _own_frames(frames: TracebackType | None) -> TracebackType | None:
    """Without the frames of the SDK that called the handler."""
    first = frames
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        first = first.tb_next
    return first or frames
