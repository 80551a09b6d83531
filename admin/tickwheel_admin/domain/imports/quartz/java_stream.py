"""Reads serialised Java objects as plain trees: nothing is looked up, created or run.

The format is that of the Java Object Serialization Specification, chapter 6. Every length is
checked against what is left of the bytes, and depth and number of objects have bounds, so that no
input costs more than a small multiple of its size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from tickwheel_admin.domain.imports.quartz.java_objects import (
    DAMAGE,
    DAMAGED,
    MAX_DEPTH,
    TOO_MUCH,
    BadJavaStream,
    JavaArray,
    JavaClass,
    JavaEnum,
    JavaObject,
)

MAX_BYTES = 1024 * 1024
_MAX_CONTENTS = 200_000
MAGIC = b"\xac\xed\x00\x05"
_FIRST_HANDLE = 0x7E0000
_HAS_WRITE_METHOD, _SERIALIZABLE, _EXTERNALIZABLE, _HAS_BLOCKS = 1, 2, 4, 8
_NUMBERS = {code: struct.Struct(f">{code}") for code in ("b", "H", "d", "f", "i", "q", "h", "?")}
_FORMATS = {"B": "b", "C": "H", "D": "d", "F": "f", "I": "i", "J": "q", "S": "h", "Z": "?"}
_MAX_KNOWN, _MAX_KNOWN_BYTES = 500, 4_000  # classes, and bytes of each


@dataclass(frozen=True, slots=True)
class _KnownClass:
    """How a class and all that it extends were described before."""

    content: bytes
    described: JavaClass
    handles: tuple[Any, ...]  # that the description takes


# By name and version. The streams of one scheduler describe the same few classes again and again.
_known: dict[bytes, _KnownClass] = {}


class _End:
    """The mark behind what a class wrote."""


def read_java(content: bytes) -> Any:
    """The first object of a stream: a tree of the classes of java_objects, texts, numbers, None.

    Raises:
        BadJavaStream: it is none, or too large.
    """
    if len(content) > MAX_BYTES:
        raise BadJavaStream(f"it is larger than {MAX_BYTES // 1024} KiB")
    if not content.startswith(MAGIC):
        raise BadJavaStream("it does not begin as a serialised Java object")
    try:
        return _Reader(content).content(0)
    except BadJavaStream:
        raise
    except DAMAGE:
        raise BadJavaStream(DAMAGED) from None


def whole(text: str) -> str:
    """A text whose surrogates are joined, and single ones replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._bytes = content
        self._at = len(MAGIC)
        self._handles: list[Any] = []
        self._count = 0
        self._references = 0  # that were met, and resets of what they refer to

    def content(self, depth: int) -> Any:
        """The next thing of the stream."""
        self._count += 1
        if depth > MAX_DEPTH or self._count > _MAX_CONTENTS:
            raise BadJavaStream(TOO_MUCH)
        code = self._byte()
        if code == 0x73:
            return self._object(depth)
        if code == 0x71:
            return self._handle(self._number("i") - _FIRST_HANDLE)
        if code == 0x74:
            return self._handled(self._text(self._number("H")))
        if code == 0x78:
            return _End
        if code == 0x70:
            return None
        return self._rare(code, depth)

    def _rare(self, code: int, depth: int) -> Any:
        match code:
            case 0x72:
                return self._class_desc(depth)
            case 0x75:
                return self._array(depth)
            case 0x76:
                return self._handled(self._class(depth))
            case 0x77:
                return self._take(self._byte())
            case 0x79:
                self._references += 1
                self._handles.clear()
                return self.content(depth + 1)
            case 0x7A:
                return self._take(self._number("i"))
            case 0x7C:
                return self._handled(self._text(self._number("q")))
            case 0x7D:
                return self._proxy(depth)
            case 0x7E:
                return self._enum(depth)
        raise BadJavaStream(DAMAGED)

    def _object(self, depth: int) -> JavaObject:
        described = self._class(depth)
        made = JavaObject(described.name)
        self._handles.append(made)
        for each in described.lineage:
            if each.flags & _SERIALIZABLE:
                for code, name in each.fields:
                    made.fields[name] = self._value(code, depth)
                if each.flags & _HAS_WRITE_METHOD:
                    made.written[each.name] = self._until_end(depth)
            elif each.flags & _EXTERNALIZABLE:
                if not each.flags & _HAS_BLOCKS:
                    raise BadJavaStream("it is in the format of JDK 1.1")
                made.written[each.name] = self._until_end(depth)
        return made

    def _array(self, depth: int) -> JavaArray:
        described = self._class(depth)
        made = JavaArray(described.name)
        self._handles.append(made)
        length, code = self._number("i"), described.name[1:2]
        if not 0 <= length <= len(self._bytes) - self._at:  # an item has one byte at least
            raise BadJavaStream(DAMAGED)
        if code == "B":
            made.items = self._take(length)
        else:
            made.items = [self._value(code, depth) for _ in range(length)]
        return made

    def _enum(self, depth: int) -> JavaEnum:
        described = self._class(depth)
        made = self._handled(JavaEnum(described.name, ""))
        name = self.content(depth + 1)
        if not isinstance(name, str):
            raise BadJavaStream(DAMAGED)
        made.name = name
        return made  # type: ignore[no-any-return]

    def _class(self, depth: int) -> JavaClass:
        found = self.content(depth + 1)
        if not isinstance(found, JavaClass):
            raise BadJavaStream(DAMAGED)
        return found

    def _class_desc(self, depth: int) -> JavaClass:
        start, before, references = self._at, len(self._handles), self._references
        (length,) = _NUMBERS["H"].unpack_from(self._bytes, start)
        head = self._bytes[start : start + length + 10]  # with its length and the serialVersionUID
        known = _known.get(head)
        if known is not None and self._bytes.startswith(known.content, start):
            self._handles += known.handles
            self._at = start + len(known.content)
            return known.described
        made = JavaClass(self._text(self._number("H")))
        self._number("q")
        self._handles.append(made)
        made.flags = self._byte()
        fields = []
        for _ in range(self._number("H")):
            code = chr(self._byte())
            fields.append((code, self._text(self._number("H"))))
            if code in "L[":
                self.content(depth + 1)  # the name of its class
        made.fields = tuple(fields)
        self._until_end(depth)
        parent = self.content(depth + 1)
        made.parent = parent if isinstance(parent, JavaClass) else None
        handles = tuple(self._handles[before:])
        # What refers to something before it means something else in another stream.
        is_whole = self._references == references and all(
            isinstance(each, str | JavaClass) for each in handles
        )
        is_small = self._at - start <= _MAX_KNOWN_BYTES and len(_known) < _MAX_KNOWN
        if is_whole and is_small:
            _known[head] = _KnownClass(self._bytes[start : self._at], made, handles)
        return made

    def _proxy(self, depth: int) -> JavaClass:
        made = JavaClass("a proxy", _SERIALIZABLE)
        self._handles.append(made)
        for _ in range(self._number("i")):
            self._text(self._number("H"))
        self._until_end(depth)
        parent = self.content(depth + 1)
        made.parent = parent if isinstance(parent, JavaClass) else None
        return made

    def _until_end(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while (each := self.content(depth + 1)) is not _End:
            found.append(each)
        return found

    def _value(self, code: str, depth: int) -> Any:
        if code in ("L", "["):
            return self.content(depth + 1)
        if code == "C":
            return chr(self._number("H"))
        if code not in _FORMATS:
            raise BadJavaStream(DAMAGED)
        return self._number(_FORMATS[code])

    def _byte(self) -> int:
        self._at += 1
        return self._bytes[self._at - 1]

    def _number(self, code: str) -> Any:
        kind = _NUMBERS[code]
        found = kind.unpack_from(self._bytes, self._at)[0]
        self._at += kind.size
        return found

    def _take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._bytes) - self._at:
            raise BadJavaStream(DAMAGED)
        self._at += length
        return self._bytes[self._at - length : self._at]

    def _text(self, length: int) -> str:
        """In Java's form of UTF-8: NUL in two bytes, what is beyond 16 bits as two surrogates."""
        raw = self._take(length)
        if raw.isascii():
            return raw.decode("ascii")
        return whole(raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass"))

    def _handle(self, place: int) -> Any:
        self._references += 1
        if place < 0:
            raise BadJavaStream(DAMAGED)
        return self._handles[place]

    def _handled(self, made: Any) -> Any:
        self._handles.append(made)
        return made
