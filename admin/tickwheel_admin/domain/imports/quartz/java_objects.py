"""Serialised Java objects as plain trees, and what damaged ones lead to."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

MAX_DEPTH = 100
DAMAGED = "it is cut off or damaged"
TOO_MUCH = "it is nested too deeply or holds too much"
# What damaged objects lead to, wherever they are looked at.
DAMAGE = (
    KeyError,
    AttributeError,
    TypeError,
    ValueError,
    IndexError,
    ArithmeticError,
    struct.error,
)


class BadJavaStream(ValueError):
    """The bytes are no serialised object that can be read, as a sentence."""


@dataclass(eq=False, repr=False)
class JavaClass:
    """How the objects of a class are written."""

    name: str
    flags: int = 0
    fields: tuple[tuple[str, str], ...] = ()  # type code and name
    parent: JavaClass | None = None

    @cached_property
    def lineage(self) -> tuple[JavaClass, ...]:
        """The class behind all that it extends; raises BadJavaStream."""
        found: list[JavaClass] = []
        each: JavaClass | None = self
        while each is not None:
            found.append(each)
            if len(found) > MAX_DEPTH:
                raise BadJavaStream(TOO_MUCH)
            each = each.parent
        return tuple(found[::-1])


@dataclass(slots=True, eq=False, repr=False)
class JavaObject:
    """An object: its fields, and what its classes wrote beside them."""

    class_name: str
    fields: dict[str, Any] = field(default_factory=dict)
    written: dict[str, list[Any]] = field(default_factory=dict)  # by class: bytes and objects


@dataclass(slots=True, eq=False, repr=False)
class JavaEnum:
    """A constant of an enumeration."""

    class_name: str
    name: str


@dataclass(slots=True, eq=False, repr=False)
class JavaArray:
    """An array; one of bytes has `bytes` as its items."""

    class_name: str
    items: Any = ()
