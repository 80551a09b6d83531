"""JSON as executors write it: forgiving where one bad character would lose a result."""

from __future__ import annotations

import re
from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")
_BOM = b"\xef\xbb\xbf"
# Any escape; the group is one half of a surrogate pair without the other half. Java writes them
# when it cuts a message in the middle of a pair.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


class NotJson(ValueError):
    """Cannot be read, also not after mending its text; the message names the place."""


@overload
def read(body: bytes) -> Any: ...
@overload
def read(body: bytes, decoder: msgspec.json.Decoder[_T]) -> _T: ...
def read(body: bytes, decoder: msgspec.json.Decoder[Any] | None = None) -> Any:
    """Decode; bytes that are not UTF-8 and halves of surrogate pairs become U+FFFD.

    Raises:
        NotJson: no JSON, too deep, or not what the decoder expects.
    """
    decode = msgspec.json.decode if decoder is None else decoder.decode
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise NotJson(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # it may be the text only
    except RecursionError:
        raise NotJson("nested too deeply") from None
    try:
        return decode(_mended(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotJson(str(error)) from None
    except RecursionError:
        raise NotJson("nested too deeply") from None


def _mended(body: bytes) -> bytes:
    body = body.removeprefix(_BOM).decode(errors="replace").encode()
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], body)


def whole_number(value: object) -> int | None:
    """The number, also one that came as a string; None: it is none, or has a fraction."""
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit():
        return int(value) if len(value) <= 20 else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def storable(text: str, max_chars: int | None = None) -> str:
    """Without NUL, which PostgreSQL cannot store, and not longer than this."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text[:max_chars]
