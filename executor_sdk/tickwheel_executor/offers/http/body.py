"""The body of a response: read up to a limit, decompressed up to the same limit, and decoded."""

from __future__ import annotations

import codecs
import zlib
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from tickwheel_executor.errors import Failed

_CHUNK = 64 * 1024
# Codecs of Python that decode text quickly; others, such as punycode, can be made to take minutes.
_CHARSETS = ("utf", "iso8859", "cp", "gb", "big5", "shift_jis", "euc", "koi8", "ascii", "mac")
_SLOW = ("utf-7",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What was read of a body."""

    data: bytes
    is_cut: bool  # there was more than the limit

    def text(self, charset: str | None) -> str:
        """As text; what is not of its character set becomes U+FFFD."""
        return self.data.removeprefix(codecs.BOM_UTF8).decode(_codec(charset), "replace")

    def json(self) -> Any:
        """As JSON.

        Raises:
            Failed: it is none, or was cut.
        """
        if self.is_cut:
            raise Failed(f"the response is longer than {len(self.data):,} bytes; its JSON is cut")
        if not self.data.strip():
            raise Failed("the response is empty; JSON was expected")
        try:
            return msgspec.json.decode(self.data.removeprefix(codecs.BOM_UTF8))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Failed(f"the response is not JSON: {error}") from None


async def read_body(response: aiohttp.ClientResponse, limit: int) -> Body:
    """The body, of which at most `limit` bytes are kept and little more is read.

    Raises:
        Failed: it cannot be decompressed.
        aiohttp.ClientError: the connection broke, or the server broke the rules of HTTP.
    """
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    decoder = _decoder(encoding)
    kept = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        kept += decoder.feed(chunk, limit + 1 - len(kept))
        if len(kept) > limit:
            return Body(data=bytes(kept[:limit]), is_cut=True)
    decoder.finish(bool(kept))
    return Body(data=bytes(kept), is_cut=False)


class _Plain:
    def feed(self, chunk: bytes, room: int) -> bytes:
        return chunk[:room]

    def finish(self, had_data: bool) -> None:
        """Nothing can be missing."""


class _Compressed:
    """gzip or deflate; never makes more than it is asked for."""

    def __init__(self) -> None:
        self._decompress = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)  # gzip or zlib

    def feed(self, chunk: bytes, room: int) -> bytes:
        try:
            # What is left unread has no room: the caller stops then.
            return self._decompress.decompress(chunk, max(room, 1))
        except zlib.error:
            raise Failed("the response cannot be decompressed") from None

    def finish(self, had_data: bool) -> None:
        if had_data and not self._decompress.eof:
            raise Failed("the compressed response ends too early")


def _decoder(encoding: str) -> _Plain | _Compressed:
    if encoding in ("", "identity"):
        return _Plain()
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _Compressed()
    raise Failed(f"the response is compressed with {encoding[:20]!r}, which was not asked for")


def _codec(charset: str | None) -> str:
    try:
        name = codecs.lookup(charset or "utf-8").name
    except (LookupError, ValueError):
        return "utf-8"
    return name if name.startswith(_CHARSETS) and name not in _SLOW else "utf-8"
