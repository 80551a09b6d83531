"""Limits what nodes send, and makes it storable, before anything else reads it."""

from __future__ import annotations

import msgspec

from tickwheel_shared.portable_json import why_not_portable
from tickwheel_shared.protocol import (
    MAX_CHECKPOINT_BYTES,
    MAX_LINE_CHARS,
    MAX_LINES_PER_CHUNK,
    MAX_MESSAGE_CHARS,
    MAX_RESULT_BYTES,
    MAX_STATE_BYTES,
    Checkpoint,
    FrameError,
    FromNode,
    LogChunk,
    Outcome,
    Progress,
    Refused,
    Result,
    WireLine,
)

_NULL = msgspec.Raw(b"null")
FIRST_AT, LAST_AT = -62_135_596_800_000, 253_402_300_799_999  # years 1 to 9999: others have no date


def clean(message: FromNode) -> FromNode | None:
    """The message within the protocol's limits and without NUL, which PostgreSQL cannot store.

    None: nothing of it can be stored. A result is never dropped: the end of an attempt is
    recorded whatever came with it.

    Raises:
        FrameError: a limit is exceeded in a way that cannot be corrected.
    """
    match message:
        case LogChunk():
            if not 1 <= len(message.lines) <= MAX_LINES_PER_CHUNK:
                raise FrameError(f"a log chunk holds 1 to {MAX_LINES_PER_CHUNK} lines")
            if all(map(_is_clean, message.lines)):
                return message
            lines = [
                WireLine(
                    min(max(line.at, FIRST_AT), LAST_AT),
                    line.level,
                    _text(line.text, MAX_LINE_CHARS),
                )
                for line in message.lines
            ]
            return msgspec.structs.replace(message, lines=lines)
        case Result():
            return _clean_result(message)
        case Checkpoint():
            return message if _problem(message.data, MAX_CHECKPOINT_BYTES) is None else None
        case Progress() if "\0" in message.text:
            return msgspec.structs.replace(message, text=_text(message.text, MAX_MESSAGE_CHARS))
        case Refused() if "\0" in message.message:
            return msgspec.structs.replace(
                message, message=_text(message.message, MAX_MESSAGE_CHARS)
            )
        case _:
            return message


def _is_clean(line: WireLine) -> bool:
    return (
        len(line.text) <= MAX_LINE_CHARS
        and "\0" not in line.text
        and FIRST_AT <= line.at <= LAST_AT
    )


def _clean_result(message: Result) -> Result:
    if message.message:
        text = _text(message.message, MAX_MESSAGE_CHARS)
        if text != message.message:
            message = msgspec.structs.replace(message, message=text)
    problem = _problem(message.result, MAX_RESULT_BYTES)
    if problem is not None and message.outcome is Outcome.SUCCEEDED:
        message = _failed(message, f"The result is {problem}.")
    elif problem is not None:  # the attempt ended in another way, which is kept
        message = msgspec.structs.replace(message, result=_NULL)
        message = _remarked(message, f"(Its result was not kept: it is {problem}.)")
    if message.outcome in (Outcome.SUCCEEDED, Outcome.SKIPPED):
        problem = _problem(message.state, MAX_STATE_BYTES, needs_object=True)
        if problem is not None:
            message = _failed(message, f"The state for the next run is {problem}.")
    if message.outcome not in (Outcome.SUCCEEDED, Outcome.SKIPPED):  # perhaps only by now
        problem = _problem(message.checkpoint, MAX_CHECKPOINT_BYTES)
        if problem is not None:
            message = msgspec.structs.replace(message, checkpoint=_NULL)
            message = _remarked(message, f"(Its checkpoint was not kept: it is {problem}.)")
    return message


def _remarked(message: Result, remark: str) -> Result:
    text = message.message[: MAX_MESSAGE_CHARS - len(remark) - 1]
    return msgspec.structs.replace(message, message=f"{text} {remark}".lstrip())


def _failed(message: Result, why: str) -> Result:
    """What the attempt returned cannot be stored, so the attempt counts as failed."""
    return msgspec.structs.replace(
        message, outcome=Outcome.FAILED, result=_NULL, state=_NULL, message=why
    )


def _problem(raw: msgspec.Raw, limit: int, *, needs_object: bool = False) -> str | None:
    """Why this cannot be stored and read again; None: it can, or it is null."""
    text = bytes(raw)
    if text == b"null":
        return None
    if len(text) > limit:
        return f"larger than {limit} bytes"
    unheld = why_not_portable(text)
    if unheld is not None:
        return f"no JSON that can be read ({unheld})"
    return "no JSON object" if needs_object and not text.lstrip().startswith(b"{") else None


def _text(text: str, limit: int) -> str:
    return text[:limit].replace("\0", "\N{REPLACEMENT CHARACTER}")
