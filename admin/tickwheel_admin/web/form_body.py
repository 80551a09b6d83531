"""The fields of a form, out of its bytes: UTF-8 and nothing else, whatever the sender calls it.

Only what browsers send is read. A name that a client gives must never choose how bytes are decoded:
Python knows codecs that are no character sets, and some of them run for long or raise anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl

MAX_FIELDS = 20_000
MAX_PART_HEAD_BYTES = 1_000  # a field's name and what else is said of it

_BOUNDARY = re.compile(
    r"multipart/form-data\s*;.*\bboundary=(?:\"([^\"]{1,70})\"|([^\s;\"]{1,70}))"
)
_DISPOSITION = re.compile(r"content-disposition: *form-data; *name=\"([^\"]*)\"", re.IGNORECASE)
_TEXT = re.compile(r"content-type: *text/plain(; *charset=\"?utf-?8\"?)?", re.IGNORECASE)
_ESCAPES = {"%22": '"', "%0D": "\r", "%0A": "\n"}  # as browsers write names


class NotText(ValueError):
    """A part is a file, or says that it is no text in UTF-8."""


def urlencoded_fields(body: bytes) -> list[tuple[str, str]]:
    """The fields of `application/x-www-form-urlencoded`, in their order.

    Raises:
        ValueError: not UTF-8, or more than 20,000 fields.
    """
    return parse_qsl(
        body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
    )


def multipart_fields(body: bytes, content_type: str) -> list[tuple[str, str]]:
    """The fields of `multipart/form-data`, in their order.

    Args:
        content_type: the header as it came; it names the boundary.

    Raises:
        NotText: a part is a file.
        ValueError: the body is not what browsers send, or has more than 20,000 fields.
    """
    found = _BOUNDARY.match(content_type)
    if found is None:
        raise ValueError("no boundary")
    delimiter = b"\r\n--" + (found[1] or found[2]).encode("ascii")
    before, *parts = (b"\r\n" + body).split(delimiter, MAX_FIELDS + 1)
    if before or not parts or parts.pop().rstrip(b"\r\n") != b"--":
        raise ValueError("the body is cut off, or has too many parts")
    return list(_fields(parts))


def _fields(parts: list[bytes]) -> Iterator[tuple[str, str]]:
    for part in parts:
        begin, head, value = part[:2], *_split(part[2:])
        if begin != b"\r\n":
            raise ValueError("a part does not begin with a line end")
        names = [_name(line) for line in head.decode().split("\r\n")]
        name = next((each for each in names if each is not None), None)
        if name is None:
            raise ValueError("a part has no name")
        yield name, value.decode()


def _split(part: bytes) -> tuple[bytes, bytes]:
    head, blank, value = part.partition(b"\r\n\r\n")
    if not blank or len(head) > MAX_PART_HEAD_BYTES:
        raise ValueError("a part has no end of its head, or a long one")
    return head, value


def _name(line: str) -> str | None:
    """The field's name; None: this line of the head says the type of a text."""
    if _TEXT.fullmatch(line):
        return None
    found = _DISPOSITION.match(line)
    if found is None or found.end() != len(line):
        raise NotText(line[:100])
    name = found[1]
    for written, meant in _ESCAPES.items():
        name = name.replace(written, meant)
    return name
