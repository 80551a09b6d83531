"""Java's objects as JSON has them: texts, numbers, lists, maps of texts."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from tickwheel_admin.domain.imports.quartz.java_objects import JavaArray, JavaEnum, JavaObject
from tickwheel_admin.domain.imports.quartz.java_stream import whole

_MAX_DEPTH = 50
_BOXES = ("Integer", "Long", "Short", "Byte", "Float", "Double", "Boolean", "Character")
_BOXED = {f"java.lang.{name}" for name in _BOXES} | {
    f"java.util.concurrent.atomic.Atomic{name}" for name in ("Integer", "Long", "Boolean")
}
_MAPS = {
    f"java.util.{name}"
    for name in ("HashMap", "LinkedHashMap", "Hashtable", "Properties", "TreeMap")
} | {"java.util.concurrent.ConcurrentHashMap"}
_LISTS = {f"java.util.{name}" for name in ("ArrayList", "LinkedList", "HashSet", "LinkedHashSet")}
_WRAPPERS = ("map", "m", "list", "c", "a", "element", "elementData")  # fields that hold the content
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST = 2**63
_MAX_SIZE = 200_000  # parameters may have 64 KiB


class NotPlain(ValueError):
    """A value that JSON cannot hold; the text is the name of its class."""


class Budget:
    """How much may be made of the objects of one stream.

    The same object may stand in many places, and is written out in each of them: 50 lists of which
    each holds the next one twice would be 2⁵⁰ values.
    """

    def __init__(self, size: int = _MAX_SIZE) -> None:
        self._left = size  # values and characters

    def take(self, size: int) -> None:
        """Raises NotPlain."""
        self._left -= size
        if self._left < 0:
            raise NotPlain("too much")


def plain(value: Any, budget: Budget, depth: int = 0) -> Any:
    """A value as JSON has it; raises NotPlain, or one of DAMAGE."""
    budget.take(1)
    if depth > _MAX_DEPTH:
        raise NotPlain("something nested too deeply")
    if isinstance(value, float) and not math.isfinite(value):
        raise NotPlain(f"the number {value}")
    if isinstance(value, str):
        budget.take(len(value))
        return value
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, JavaEnum):
        return value.name
    if isinstance(value, JavaArray):
        if isinstance(value.items, bytes):
            raise NotPlain("an array of bytes")
        if value.class_name == "[C":
            budget.take(len(value.items))
            return whole("".join(value.items))
        return [plain(each, budget, depth + 1) for each in value.items]
    if isinstance(value, JavaObject):
        return _object(value, budget, depth)
    raise NotPlain("something unknown")


def text(value: Any) -> str:
    """A text that is one; raises NotPlain."""
    if not isinstance(value, str):
        raise NotPlain("an object where a text belongs")
    return value


def pairs(value: JavaObject) -> Iterator[tuple[Any, Any]]:
    """The entries of a map, whatever wraps it; raises NotPlain."""
    for _ in range(_MAX_DEPTH):
        if value.class_name in _MAPS:
            found = _written(value)
            return zip(found[::2], found[1::2], strict=False)
        inner = next((value.fields[name] for name in ("map", "m") if name in value.fields), None)
        if not isinstance(inner, JavaObject):
            break
        value = inner
    raise NotPlain(value.class_name)


def millis(value: JavaObject) -> int:
    """The instant of a java.util.Date."""
    return int(struct.unpack(">q", _block(value)[:8])[0])


def items(value: JavaObject) -> list[Any]:
    """The elements of a collection, as they are; raises NotPlain."""
    for _ in range(_MAX_DEPTH):
        if value.class_name == "java.util.TreeSet":
            return _written(value)[1:]  # behind its comparator
        if value.class_name in _LISTS or value.class_name == "java.util.CollSer":
            return _written(value)
        inner = next((value.fields[name] for name in _WRAPPERS if name in value.fields), None)
        if isinstance(inner, JavaArray):
            return list(inner.items)[: value.fields.get("elementCount")]
        if not isinstance(inner, JavaObject):
            break
        value = inner
    raise NotPlain(value.class_name)


def _object(value: JavaObject, budget: Budget, depth: int) -> Any:
    name = value.class_name
    if name in _BOXED:
        found = value.fields["value"]
        if name == "java.lang.Character":
            return whole(text(found))
        return bool(found) if name.endswith("Boolean") else plain(found, budget, depth + 1)
    if name in ("java.util.Date", "java.sql.Timestamp", "java.sql.Date"):
        return _instant(millis(value), 0)
    if name == "java.math.BigInteger":
        return _big(value)
    if name == "java.math.BigDecimal":
        return str(Decimal(_big(value.fields["intVal"])).scaleb(-value.fields["scale"]))
    if name == "java.util.UUID":
        both = struct.pack(">qq", value.fields["mostSigBits"], value.fields["leastSigBits"])
        return str(UUID(bytes=both))
    if name == "java.time.Ser":
        return _time(_block(value))
    if name == "java.io.File":
        return plain(text(value.fields["path"]), budget, depth + 1)
    if name in ("java.util.Collections$EmptyList", "java.util.Collections$EmptySet"):
        return []
    if name == "java.util.Collections$EmptyMap":
        return {}
    if name == "java.util.Collections$SingletonMap":
        return _map(iter([(value.fields["k"], value.fields["v"])]), budget, depth)
    if name == "java.util.CollSer" and value.fields["tag"] & 0xFF == 3:
        found = items(value)
        return _map(zip(found[::2], found[1::2], strict=False), budget, depth)
    if name in _MAPS or "map" in value.fields or "m" in value.fields:
        return _map(pairs(value), budget, depth)
    return [plain(each, budget, depth + 1) for each in items(value)]


def _map(entries: Iterator[tuple[Any, Any]], budget: Budget, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in entries:
        name = plain(key, budget, depth + 1)
        if name is None and value is None:
            continue  # what ends a ConcurrentHashMap
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise NotPlain("a map whose keys are no texts")
        found[str(name)] = plain(value, budget, depth + 1)
    return found


def _written(value: JavaObject) -> list[Any]:
    """The objects that its classes wrote, without numbers such as the size."""
    return [each for some in value.written.values() for each in some if not isinstance(each, bytes)]


def _block(value: JavaObject) -> bytes:
    return b"".join(
        each for some in value.written.values() for each in some if isinstance(each, bytes)
    )


def _big(value: JavaObject) -> int:
    number = int.from_bytes(value.fields["magnitude"].items) * int(value.fields["signum"])
    if not -_MOST <= number < _MOST:
        raise NotPlain("a number of more than 64 bits")
    return number


def _time(block: bytes) -> str:
    """What `java.time.Ser` wrote: a type, then its fields."""
    kind, rest = block[0], block[1:]
    if kind == 1:
        seconds, nanos = struct.unpack(">qi", rest[:12])
        return f"PT{seconds}S" if not nanos else f"PT{seconds}.{nanos:09}S"
    if kind == 2:
        seconds, nanos = struct.unpack(">qi", rest[:12])
        return _instant(seconds * 1_000, nanos)
    if kind == 3:
        return str(date(*struct.unpack(">ibb", rest[:6])))
    raise NotPlain("a time of java.time")


def _instant(ms: int, nanos: int) -> str:
    try:
        at = _EPOCH + timedelta(milliseconds=ms, microseconds=nanos // 1_000)
    except OverflowError:
        raise NotPlain("an instant out of range") from None
    return at.isoformat().replace("+00:00", "Z")
