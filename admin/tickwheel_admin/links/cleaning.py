"""What nodes send is bounded and made storable before anything else looks at it."""

from __future__ import annotations

import msgspec

from tickwheel_shared.protocol import (
    MAX_LINE_CHARS,
    MAX_LINES_PER_CHUNK,
    MAX_MESSAGE_CHARS,
    MAX_RESULT_BYTES,
    FrameError,
    FromNode,
    LogChunk,
    LogLine,
    Outcome,
    Progress,
    Refused,
    Result,
)


def clean(message: FromNode) -> FromNode:
    """The message within the protocol's limits and without NUL, which PostgreSQL cannot store.

    Raises:
        FrameError: a limit is broken in a way that cannot be mended.
    """
    match message:
        case LogChunk():
            if not 1 <= len(message.lines) <= MAX_LINES_PER_CHUNK:
                raise FrameError(f"a log chunk holds 1 to {MAX_LINES_PER_CHUNK} lines")
            if all(
                len(line.text) <= MAX_LINE_CHARS and "\0" not in line.text for line in message.lines
            ):
                return message
            lines = [
                LogLine(line.at, line.level, _text(line.text, MAX_LINE_CHARS))
                for line in message.lines
            ]
            return msgspec.structs.replace(message, lines=lines)
        case Result():
            message = msgspec.structs.replace(
                message, message=_text(message.message, MAX_MESSAGE_CHARS)
            )
            if len(bytes(message.result)) <= MAX_RESULT_BYTES:
                return message
            return msgspec.structs.replace(
                message,
                outcome=Outcome.FAILED,
                result=msgspec.Raw(b"null"),
                message=f"The result is larger than {MAX_RESULT_BYTES} bytes.",
            )
        case Progress() if "\0" in message.text:
            return msgspec.structs.replace(message, text=_text(message.text, MAX_MESSAGE_CHARS))
        case Refused() if "\0" in message.message:
            return msgspec.structs.replace(
                message, message=_text(message.message, MAX_MESSAGE_CHARS)
            )
        case _:
            return message


def _text(text: str, limit: int) -> str:
    return text[:limit].replace("\0", "\N{REPLACEMENT CHARACTER}")
