"""Answers of executors over HTTP/1, read as they arrive; no socket is touched here."""

from __future__ import annotations

import httptools

MAX_HEAD_BYTES = 32 * 1024  # of all header lines, trailers included
# Of chunks: beside the head, for each byte of the body. Also bodies in chunks of one byte are read.
FRAME_BYTES_PER_BYTE = 8
_FINAL = 200  # smaller statuses announce another answer


class BadHttp(ValueError):
    """What came is no answer of HTTP/1, or was cut off."""


class AnswerReader:
    """Reads one answer.

    Args:
        max_bytes: of its body; nothing is kept beyond.
    """

    __slots__ = (
        "_body",
        "_has_end",
        "_head_bytes",
        "_in_body",
        "_is_kept",
        "_max_bytes",
        "_more",
        "_outside_body",
        "_parser",
        "is_truncated",
        "is_whole",
        "status",
    )

    def __init__(self, max_bytes: int) -> None:
        self.status = 0
        self.is_truncated = False  # there was more of the body
        self.is_whole = False
        self._max_bytes = max_bytes
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._outside_body = 0  # bytes read so far that are none of the body
        self._head_bytes = 0
        self._in_body = False
        self._has_end = False  # its head says where the body ends
        self._is_kept = False
        self._more = False  # came after the answer

    @property
    def body(self) -> bytes:
        """What was read of it."""
        return bytes(self._body)

    @property
    def leaves_connection(self) -> bool:
        """Whether the connection serves for another call."""
        return self.is_whole and self._is_kept and not self.is_truncated and not self._more

    def feed(self, data: bytes) -> bool:
        """Read what came; returns whether the answer is whole. Raises BadHttp."""
        if self.is_whole:
            self._more = True
            return True
        self._outside_body += len(data)  # on_body takes its own off
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise BadHttp("the answer leaves HTTP") from None
        except httptools.HttpParserError as error:
            if self.is_whole:  # what came after an answer is not read
                self._more = True
            else:
                raise BadHttp(_reason(error)) from None
        # One long line of a header, a trailer or a chunk's extensions is not told before its end.
        framing = FRAME_BYTES_PER_BYTE * len(self._body)
        if not self.is_whole and self._outside_body > MAX_HEAD_BYTES + framing:
            raise BadHttp("the answer's headers are too long")
        return self.is_whole

    def end(self) -> None:
        """The connection was closed; raises BadHttp if the answer is not whole by that."""
        if not self._in_body or self._has_end:
            raise BadHttp("the connection was closed before the answer's end")
        self.is_whole = True

    # --- called by the parser ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.is_whole:
            self._more = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.is_whole:
            return
        self._head_bytes += len(name) + len(value) + len(b": \r\n")
        if self._head_bytes > MAX_HEAD_BYTES:
            raise BadHttp("the answer's headers are too long")
        match name.lower():
            case b"content-length":
                self._has_end = True
            case b"transfer-encoding":
                if value.strip().lower() != b"chunked":
                    raise BadHttp("the answer's transfer encoding is not known")
                self._has_end = True

    def on_headers_complete(self) -> None:
        if self.is_whole:
            return
        self.status = self._parser.get_status_code()
        self._is_kept = self._parser.should_keep_alive()
        self._in_body = self.status >= _FINAL

    def on_body(self, piece: bytes) -> None:
        if self.is_whole:
            return
        self._outside_body -= len(piece)
        self._body += piece
        if len(self._body) > self._max_bytes:
            del self._body[self._max_bytes :]
            self.is_truncated = self.is_whole = True

    def on_message_complete(self) -> None:
        if self._in_body:
            self.is_whole = True
        else:
            self._has_end = False  # of the answer that follows


def _reason(error: httptools.HttpParserError) -> str:
    if isinstance(error.__context__, BadHttp):  # raised in a callback
        return str(error.__context__)
    return f"the answer is not HTTP/1: {error}"[:300]
