"""Reads serialised Java objects as plain trees: nothing is looked up, created or run.

The format is that of the Java Object Serialization Specification, chapter 6. Every length is
checked against what is left of the bytes, and depth and number of objects have bounds, so that no
input costs more than a small multiple of its size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

MAX_BYTES = 1024 * 1024
_MAX_DEPTH = 100
_MAX_CONTENTS = 200_000
MAGIC = b"\xac\xed\x00\x05"
_FIRST_HANDLE = 0x7E0000
_HAS_WRITE_METHOD, _SERIALIZABLE, _EXTERNALIZABLE, _HAS_BLOCKS = 1, 2, 4, 8
_FORMATS = {"B": "b", "C": "H", "D": "d", "F": "f", "I": "i", "J": "q", "S": "h", "Z": "?"}


class BadJavaStream(ValueError):
    """The bytes are no serialised object that can be read, as a sentence."""


@dataclass(slots=True, eq=False)
class JavaClass:
    """How the objects of a class are written."""

    name: str
    flags: int = 0
    fields: tuple[tuple[str, str], ...] = ()  # type code and name
    parent: JavaClass | None = None


@dataclass(slots=True, eq=False)
class JavaObject:
    """An object: its fields, and what its classes wrote beside them."""

    class_name: str
    fields: dict[str, Any] = field(default_factory=dict)
    written: dict[str, list[Any]] = field(default_factory=dict)  # by class: bytes and objects


@dataclass(slots=True, eq=False)
class JavaEnum:
    """A constant of an enumeration."""

    class_name: str
    name: str


@dataclass(slots=True, eq=False)
class JavaArray:
    """An array; one of bytes has `bytes` as its items."""

    class_name: str
    items: Any = ()


class _End:
    """The mark behind what a class wrote."""


def read_java(content: bytes) -> Any:
    """The first object of a stream: a tree of the classes above, texts, numbers, None.

    Raises:
        BadJavaStream: it is none, or too large.
    """
    if len(content) > MAX_BYTES:
        raise BadJavaStream(f"it is larger than {MAX_BYTES // 1024} KiB")
    if not content.startswith(MAGIC):
        raise BadJavaStream("it does not begin as a serialised Java object")
    try:
        return _Reader(content).content(0)
    except (struct.error, IndexError, UnicodeDecodeError, AttributeError, TypeError):
        raise BadJavaStream("it is cut off or damaged") from None


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._bytes = content
        self._at = len(MAGIC)
        self._handles: list[Any] = []
        self._count = 0

    def content(self, depth: int) -> Any:
        """The next thing of the stream."""
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_CONTENTS:
            raise BadJavaStream("it is nested too deeply or holds too much")
        code = self._number("B")
        match code:
            case 0x70:
                return None
            case 0x71:
                return self._handles[self._number("i") - _FIRST_HANDLE]
            case 0x72:
                return self._class_desc(depth)
            case 0x73:
                return self._object(depth)
            case 0x74:
                return self._handled(self._text(self._number("H")))
            case 0x75:
                return self._array(depth)
            case 0x76:
                return self._handled(self._class(depth))
            case 0x77:
                return self._take(self._number("B"))
            case 0x78:
                return _End
            case 0x79:
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
        raise BadJavaStream("it is cut off or damaged")

    def _object(self, depth: int) -> JavaObject:
        described = self._class(depth)
        made = JavaObject(described.name)
        self._handles.append(made)
        lineage: list[JavaClass] = []
        each: JavaClass | None = described
        while each is not None:
            lineage.append(each)
            if len(lineage) > _MAX_DEPTH:
                raise BadJavaStream("it is nested too deeply or holds too much")
            each = each.parent
        for each in reversed(lineage):
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
            raise BadJavaStream("it is cut off or damaged")
        if code == "B":
            made.items = self._take(length)
        else:
            made.items = [self._value(code, depth) for _ in range(length)]
        return made

    def _enum(self, depth: int) -> JavaEnum:
        described = self._class(depth)
        made = self._handled(JavaEnum(described.name, ""))
        made.name = str(self.content(depth + 1))
        return made  # type: ignore[no-any-return]

    def _class(self, depth: int) -> JavaClass:
        found = self.content(depth + 1)
        if not isinstance(found, JavaClass):
            raise BadJavaStream("it is cut off or damaged")
        return found

    def _class_desc(self, depth: int) -> JavaClass:
        made = JavaClass(self._text(self._number("H")))
        self._number("q")  # serialVersionUID
        self._handles.append(made)
        made.flags = self._number("B")
        fields = []
        for _ in range(self._number("H")):
            code = chr(self._number("B"))
            fields.append((code, self._text(self._number("H"))))
            if code in "L[":
                self.content(depth + 1)  # the name of its class
        made.fields = tuple(fields)
        self._until_end(depth)
        parent = self.content(depth + 1)
        made.parent = parent if isinstance(parent, JavaClass) else None
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
            raise BadJavaStream("it is cut off or damaged")
        return self._number(_FORMATS[code])

    def _number(self, code: str) -> Any:
        found = struct.unpack_from(f">{code}", self._bytes, self._at)[0]
        self._at += struct.calcsize(f">{code}")
        return found

    def _take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._bytes) - self._at:
            raise BadJavaStream("it is cut off or damaged")
        self._at += length
        return self._bytes[self._at - length : self._at]

    def _text(self, length: int) -> str:
        """In Java's form of UTF-8: NUL in two bytes, what is beyond 16 bits as two surrogates."""
        raw = self._take(length).replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return raw.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _handled(self, made: Any) -> Any:
        self._handles.append(made)
        return made
