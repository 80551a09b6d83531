"""What a request may name, one record each: how it is read, and how the document tells it.

    _NODE = optional_id("node_id", "Runs whose last attempt was on this node.")
    node_id = _NODE.of(fields)

Records read what `Fields` reads: null counts as not given, and what breaks a rule is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, NotRequired, TypedDict, TypeVar

from msgspec import Meta

from tickwheel_admin.domain.fields import MAX_INSTANT, Fields, as_seconds

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

MAX_ID = 2**53 - 1  # what every JSON reader keeps exactly

Instant = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""ISO 8601 in UTC."""

AnyInstant = Instant | Annotated[int, Meta(ge=0, le=MAX_INSTANT)]


@dataclass(frozen=True, slots=True, eq=False)
class InputField(Generic[T]):
    """A query parameter, a header or a field of a body."""

    name: str
    about: str  # for the readers of the document, in English
    type: Any  # what msgspec makes its schema of
    read: Callable[[Fields, str], T]
    required: bool = False
    default: object = None  # as JSON; None: there is none to tell
    is_number: bool = False  # digits in an address are a number, and not a text

    def of(self, fields: Fields) -> T:
        """Its value, or its default; problems are noted in the fields."""
        if self.required and not fields.has(self.name):
            fields.require(self.name)
        return self.read(fields, self.name)


def names_of(inputs: Collection[InputField[Any]]) -> tuple[str, ...]:
    """What requests call them."""
    return tuple(each.name for each in inputs)


def object_type(name: str, inputs: Collection[InputField[Any]]) -> Any:
    """The type of a JSON object with these fields; null counts as not given."""
    return TypedDict(  # type: ignore[operator]  # its fields are known at run time only
        name,
        {
            each.name: Annotated[each.type, Meta(description=each.about)]
            if each.required
            else NotRequired[Annotated[each.type | None, Meta(description=each.about)]]
            for each in inputs
        },
    )


def integer(name: str, about: str, *, low: int, high: int, default: int) -> InputField[int]:
    """A whole number from `low` to `high`."""
    return InputField(
        name,
        about,
        Annotated[int, Meta(ge=low, le=high)],
        lambda fields, name: fields.integer(name, low=low, high=high, default=default),
        default=default,
        is_number=True,
    )


def optional_integer(name: str, about: str, *, low: int, high: int) -> InputField[int | None]:
    """The same; None: it is not given."""

    def read(fields: Fields, name: str) -> int | None:
        number = fields.integer(name, low=low, high=high, default=low)
        return number if fields.has(name) else None

    return InputField(name, about, Annotated[int, Meta(ge=low, le=high)], read, is_number=True)


def required_integer(name: str, about: str, *, low: int, high: int) -> InputField[int]:
    """The same; it must be given."""
    return InputField(
        name,
        about,
        Annotated[int, Meta(ge=low, le=high)],
        lambda fields, name: fields.integer(name, low=low, high=high, default=low),
        required=True,
        is_number=True,
    )


def optional_id(name: str, about: str) -> InputField[int | None]:
    """An id of something; None: it is not given."""
    return optional_integer(name, about, low=1, high=MAX_ID)


def required_id(name: str, about: str) -> InputField[int]:
    """An id of something."""
    return required_integer(name, about, low=1, high=MAX_ID)


def boolean(
    name: str, about: str, *, default: bool = False, required: bool = False
) -> InputField[bool]:
    """True or false."""
    return InputField(
        name,
        about,
        bool,
        lambda fields, name: fields.boolean(name, default=default),
        required=required,
        default=None if required else default,
    )


def optional_boolean(name: str, about: str) -> InputField[bool | None]:
    """True or false; None: it is not given."""

    def read(fields: Fields, name: str) -> bool | None:
        value = fields.boolean(name, default=False)
        return value if fields.has(name) else None

    return InputField(name, about, bool, read)


def choice(name: str, about: str, *, of: Collection[str], default: str) -> InputField[str]:
    """One of a few words."""
    allowed = tuple(of)
    return InputField(
        name,
        about,
        Literal[allowed],
        lambda fields, name: fields.choice(name, allowed, default=default),
        default=default or None,
    )


def member(
    name: str, about: str, enum: type[E], *, default: E, required: bool = False
) -> InputField[E]:
    """One of the values of an enumeration."""
    return InputField(
        name,
        about,
        enum,
        lambda fields, name: fields.member(name, enum, default=default),
        required=required,
        default=None if required else default.value,
    )


def optional_member(name: str, about: str, enum: type[E]) -> InputField[E | None]:
    """The same; None: it is not given."""

    def read(fields: Fields, name: str) -> E | None:
        return fields.member(name, enum, default=next(iter(enum))) if fields.has(name) else None

    return InputField(name, about, enum, read)


def instant(name: str, about: str, *, required: bool = False) -> InputField[int | None]:
    """Epoch milliseconds of an instant; None: it is not given, or no instant."""
    return InputField(
        name,
        about,
        AnyInstant,
        lambda fields, name: fields.instant(name),
        required=required,
        is_number=True,
    )


def seconds_as_ms(name: str, about: str, *, low_ms: int, high_ms: int) -> InputField[int | None]:
    """A length in seconds, as milliseconds."""
    bounds = Meta(ge=as_seconds(low_ms), le=as_seconds(high_ms))
    return InputField(
        name,
        about,
        Annotated[float, bounds],
        lambda fields, name: fields.seconds_as_ms(name, low_ms=low_ms, high_ms=high_ms),
        is_number=True,
    )


def text(
    name: str, about: str, *, max_chars: int, required: bool = False, lines: bool = False
) -> InputField[str]:
    """Trimmed text; empty: it is not given."""
    return InputField(
        name,
        about,
        Annotated[str, Meta(max_length=max_chars)],
        # A required text that is missing is noted already; one that is blank is not.
        lambda fields, name: fields.text(
            name, max_chars=max_chars, required=required and fields.has(name), lines=lines
        ),
        required=required,
    )


def given(name: str, about: str, schema: Any, *, required: bool = False) -> InputField[Any]:
    """What the use case reads and refuses by itself, as it stands.

    Args:
        schema: the type of what is right.
    """
    return InputField(
        name, about, schema, lambda fields, name: fields.raw.get(name), required=required
    )
