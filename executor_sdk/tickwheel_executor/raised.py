"""What a handler raised, as text."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

_PACKAGE = str(Path(__file__).parent)


def text_of(error: BaseException) -> str:
    """What the exception says, whatever its code does."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (an exception whose __str__ fails is only a failed run)
        return "(its text cannot be shown)"


def describe(error: BaseException) -> str:
    """`Type: message`, as the last line of a traceback."""
    text = text_of(error)
    name = type(error).__qualname__
    return f"{name}: {text}" if text else name


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it, from the handler on."""
    try:
        lines = traceback.format_exception(type(error), error, _own_frames(error.__traceback__))
    except Exception:  # noqa: BLE001 (the same: this calls the exception's own code)
        return describe(error)
    return "".join(lines)


def _own_frames(frames: TracebackType | None) -> TracebackType | None:
    """Without the frames of the SDK that called the handler."""
    first = frames
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        first = first.tb_next
    return first or frames
