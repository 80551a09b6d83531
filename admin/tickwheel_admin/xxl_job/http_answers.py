"""Answers of executors over HTTP/1, read as they arrive; no socket is touched here.

Only what this protocol needs: one answer at a time, not packed, cut at a bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_HEAD_BYTES = 32 * 1024  # of all header lines, and of all trailers
_MAX_CHUNK_LINE = 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: |$)")
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")
_SWITCHING = 101
_WITHOUT_BODY = frozenset((204, 304))


class BadHttp(ValueError):
    """What came is no answer of HTTP/1, or was cut off."""


class AnswerReader:
    """Reads one answer.

    Args:
        max_bytes: of its body; nothing is read beyond.
    """

    __slots__ = (
        "_buffer",
        "_ends_with_connection",
        "_is_kept",
        "_left",
        "_max_bytes",
        "_step",
        "_trailer_bytes",
        "body",
        "is_truncated",
        "is_whole",
        "status",
    )

    def __init__(self, max_bytes: int) -> None:
        self.status = 0
        self.body = b""
        self.is_truncated = False  # there was more of the body
        self.is_whole = False
        self._max_bytes = max_bytes
        self._buffer = bytearray()  # what came and is not read yet
        self._left = 0  # bytes of the body, or of its chunk, that are still to come
        self._ends_with_connection = False
        self._is_kept = False
        self._trailer_bytes = 0
        self._step: Callable[[], bool] = self._read_head  # whether it got on

    @property
    def leaves_connection(self) -> bool:
        """Whether the connection serves for another call."""
        return self.is_whole and self._is_kept and not self.is_truncated and not self._buffer

    def feed(self, data: bytes) -> bool:
        """Read what came; returns whether the answer is whole. Raises BadHttp."""
        self._buffer += data
        while not self.is_whole and self._step():
            pass
        return self.is_whole

    def end(self) -> None:
        """The connection was closed; raises BadHttp if the answer is not whole by that."""
        if not self._ends_with_connection:
            raise BadHttp("the connection was closed before the answer's end")
        self.is_whole = True

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if max(end, len(self._buffer) if end < 0 else 0) > MAX_HEAD_BYTES:
            raise BadHttp("the answer's headers are too long")
        if end < 0:
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        found = _STATUS.match(first)
        if found is None:
            raise BadHttp("the answer is not HTTP/1")
        self.status = int(found[2])
        if self.status == _SWITCHING:
            raise BadHttp("the answer leaves HTTP")
        if self.status >= 200:  # else another head follows
            self._read_headers(lines, is_kept=found[1] == b"1")
        return True

    def _read_headers(self, lines: list[bytes], *, is_kept: bool) -> None:
        length: int | None = None
        is_chunked = False
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise BadHttp("a header of the answer has no colon")
            match name.strip().lower():
                case b"content-length":
                    read = _length(value.strip())
                    if length not in (None, read):
                        raise BadHttp("the answer has two lengths")
                    length = read
                case b"transfer-encoding":
                    if value.strip().lower() != b"chunked":
                        raise BadHttp("the answer's transfer encoding is not known")
                    is_chunked = True
                case b"connection":
                    said = [each.strip() for each in value.lower().split(b",")]
                    is_kept = b"keep-alive" in said or (is_kept and b"close" not in said)
        if is_chunked:
            self._is_kept = is_kept and length is None
            self._step = self._read_chunk_size
        elif length == 0 or self.status in _WITHOUT_BODY:
            self._is_kept = is_kept
            self.is_whole = True
        elif length is not None:
            self._is_kept = is_kept
            self._left = length
            self._step = self._read_body
        else:
            self._ends_with_connection = True
            self._step = self._read_to_end

    def _read_body(self) -> bool:
        self._take()
        self.is_whole = self.is_whole or not self._left
        return False

    def _read_to_end(self) -> bool:
        self._left = len(self._buffer)
        self._take()
        return False

    def _read_chunk_size(self) -> bool:
        end = self._buffer.find(b"\r\n")
        if max(end, len(self._buffer) if end < 0 else 0) > _MAX_CHUNK_LINE:
            raise BadHttp("a chunk of the answer has no size")
        if end < 0:
            return False
        size = bytes(self._buffer[:end]).partition(b";")[0].strip()
        if _CHUNK_SIZE.fullmatch(size) is None:
            raise BadHttp("a chunk of the answer has no size")
        del self._buffer[: end + 2]
        self._left = int(size, 16)
        self._step = self._read_chunk if self._left else self._read_trailers
        return True

    def _read_chunk(self) -> bool:
        if self._left:
            self._take()
        if self._left or len(self._buffer) < 2:
            return False
        if not self._buffer.startswith(b"\r\n"):
            raise BadHttp("a chunk of the answer is longer than its size")
        del self._buffer[:2]
        self._step = self._read_chunk_size
        return True

    def _read_trailers(self) -> bool:
        end = self._buffer.find(b"\r\n")
        read = len(self._buffer) if end < 0 else end + 2
        if self._trailer_bytes + read > MAX_HEAD_BYTES:
            raise BadHttp("the answer's trailers are too long")
        if end < 0:
            return False
        del self._buffer[: end + 2]
        self._trailer_bytes += read
        self.is_whole = end == 0
        return True

    def _take(self) -> None:
        """Move what came of the body, or of its chunk."""
        piece = bytes(self._buffer[: self._left])
        del self._buffer[: self._left]
        self._left -= len(piece)
        self.body = self.body + piece if self.body else piece
        if len(self.body) > self._max_bytes:
            self.body = self.body[: self._max_bytes]
            self.is_truncated = self.is_whole = True


def _length(value: bytes) -> int:
    if not value.isdigit() or len(value) > 18:
        raise BadHttp("the answer's length is no number")
    return int(value)
