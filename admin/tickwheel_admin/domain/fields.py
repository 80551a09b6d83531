"""Strict reading of a JSON object that somebody sent: broken rules are noted, never guessed at."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any, TypeVar

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.names import normal_name, unseen_character

E = TypeVar("E", bound=StrEnum)

MAX_REMARK_CHARS = 2_000  # of what people write of an act, such as why they skip a step
MAX_UNKNOWN = 20  # fields of one object that are refused by name
MIN_INSTANT = -62_135_596_800_000  # 0001-01-01T00:00:00Z, the first one
MAX_INSTANT = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z, the last instant Python can print
INVISIBLE_CHARACTER = "This holds a character that nobody sees: %(character)s. Leave it out."
CONTROL_CHARACTERS = "Line ends and control characters are not allowed here."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT = re.compile(r"[0-9T:.,+Zz -]{10,40}", re.ASCII)
# They make text read in another order than it is stored, so a name could look like another one.
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Fields:
    """The fields of one object. A field that breaks a rule is noted and read as its default."""

    def __init__(self, raw: object, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self.is_object = isinstance(raw, Mapping)
        self.raw: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
        if not self.is_object:
            problems.append(
                Problem(field=path, code="wrong_type", template="This must be an object.")
            )

    def where(self, name: str) -> str:
        """Path of a field, from the root of the request."""
        return f"{self.path}.{name}" if self.path else name

    def refuse(self, field: str, code: str, template: str, /, **params: Any) -> None:
        """Note a broken rule of a field."""
        self.problems.append(
            Problem(field=self.where(field), code=code, template=template, params=params)
        )

    def only(self, known: Collection[str], *, elsewhere: Collection[str] = ()) -> None:
        """Refuse every field that is not known, with the name that was probably meant.

        The first 20 of them: looking for what was meant takes its time, and a body holds many.

        Args:
            elsewhere: fields that the caller refuses itself, with what it knows of them.
        """
        unknown = (name for name in self.raw if name not in known and name not in elsewhere)
        for name in islice(unknown, MAX_UNKNOWN):
            shown = str(name)[:100]
            if meant := closest(shown, known):
                self.refuse(
                    shown,
                    "unknown_field",
                    "There is no field “%(name)s”; did you mean “%(meant)s”?",
                    name=shown,
                    meant=meant,
                )
            elif not known:
                self.refuse(
                    shown,
                    "unknown_field",
                    "There is no field “%(name)s”: none can be given here. Leave it out.",
                    name=shown,
                )
            else:
                self.refuse(
                    shown,
                    "unknown_field",
                    "There is no field “%(name)s”; known are %(known)s.",
                    name=shown,
                    known=", ".join(known),
                )

    def has(self, name: str) -> bool:
        """Whether a value was given; null counts as not given."""
        return self.raw.get(name) is not None

    def require(self, name: str) -> None:
        """Refuse it when no value was given."""
        if not self.has(name):
            self.refuse(name, "required", "This is required.")

    def text(
        self,
        name: str,
        *,
        max_chars: int,
        default: str = "",
        required: bool = False,
        lines: bool = False,
        is_name: bool = False,
        exact: bool = False,
    ) -> str:
        """Text without control characters, trimmed; `lines` allows line ends and tabs.

        Args:
            is_name: of something that people look for: kept in its one form (`domain.names`), with
                nothing invisible in it.
            exact: a name that code compares letter by letter; nothing of it is changed.
        """
        if not self.has(name):
            if required:
                self.refuse(name, "required", "This is required.")
            return default
        value = self.raw[name]
        if not isinstance(value, str):
            self.refuse(name, "wrong_type", "This must be text.")
            return default
        if lines:
            value = value.replace("\r\n", "\n")
        # MariaDB ignores trailing spaces in a unique key; trimmed names differ everywhere alike.
        value = normal_name(value) if is_name and not exact else value.strip()
        if required and not value:
            self.refuse(name, "required", "This is required.")
        elif len(value) > max_chars:
            self.refuse(name, "too_long", "At most %(limit)d characters, please.", limit=max_chars)
        elif not is_clean(value, lines=lines):
            self.refuse(name, "control_characters", CONTROL_CHARACTERS)
        elif is_name and (unseen := unseen_character(value)) is not None:
            self.refuse(name, "invisible_character", INVISIBLE_CHARACTER, character=unseen)
        else:
            return value
        return default

    def integer(self, name: str, *, low: int, high: int, default: int) -> int:
        """A whole number from `low` to `high`."""
        if not self.has(name):
            return default
        value = self.raw[name]
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(name, "wrong_type", "This must be a whole number.")
        elif not low <= value <= high:
            self._refuse_range(name, low, high)
        else:
            return value
        return default

    def number(self, name: str, *, low: float, high: float, default: float) -> float:
        """A number from `low` to `high`."""
        if not self.has(name):
            return default
        value = self.raw[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(name, "wrong_type", "This must be a number.")
        elif not low <= value <= high:  # written so that NaN is refused, too
            self._refuse_range(name, low, high)
        else:
            return float(value)
        return default

    def seconds_as_ms(self, name: str, *, low_ms: int, high_ms: int) -> int | None:
        """A length given in seconds, to the millisecond; None when it was not given."""
        if not self.has(name):
            return None
        value = self.raw[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(name, "wrong_type", "This must be a number of seconds.")
            return None
        # Written so that NaN is refused, too; compared before the product can become huge.
        if not low_ms <= value * 1000 <= high_ms:
            self._refuse_range(name, as_seconds(low_ms), as_seconds(high_ms))
            return None
        ms = round(value * 1000)
        if abs(value * 1000 - ms) > 1e-4:
            self.refuse(name, "too_fine", "Nothing finer than a millisecond (0.001), please.")
            return None
        return ms

    def boolean(self, name: str, *, default: bool) -> bool:
        """True or false."""
        if not self.has(name):
            return default
        value = self.raw[name]
        if isinstance(value, bool):
            return value
        self.refuse(name, "wrong_type", "This must be true or false.")
        return default

    def choice(self, name: str, allowed: Collection[str], *, default: str) -> str:
        """One of a few words."""
        if not self.has(name):
            return default
        value = self.raw[name]
        if isinstance(value, str) and value in allowed:
            return value
        choices = ", ".join(allowed)
        if isinstance(value, str) and (meant := closest(value, allowed)):
            self.refuse(
                name,
                "not_one_of",
                "This must be one of %(choices)s; did you mean “%(meant)s”?",
                choices=choices,
                meant=meant,
            )
        else:
            self.refuse(name, "not_one_of", "This must be one of %(choices)s.", choices=choices)
        return default

    def member(self, name: str, enum: type[E], *, default: E) -> E:
        """One of the values of an enumeration."""
        value = self.raw.get(name)
        if isinstance(value, str):
            with suppress(ValueError):
                return enum(value)
        return enum(self.choice(name, [each.value for each in enum], default=default.value))

    def instant(self, name: str) -> int | None:
        """An instant: ISO 8601 with its offset from UTC, or epoch milliseconds."""
        if not self.has(name):
            return None
        value = self.raw[name]
        if isinstance(value, bool) or not isinstance(value, int | str):
            self.refuse(name, "wrong_type", "This must be a date and time in ISO 8601.")
            return None
        try:
            at = value if isinstance(value, int) else instant_from_iso(value)
        except ValueError:
            self.refuse(
                name,
                "instant.invalid",
                "This must be a date and time with its offset from UTC,"
                " such as 2026-03-01T09:00:00+01:00 or 2026-03-01T08:00:00Z.",
            )
            return None
        if 0 <= at <= MAX_INSTANT:
            return at
        self.refuse(name, "out_of_range", "This must lie between the years 1970 and 9999.")
        return None

    def _refuse_range(self, name: str, low: float, high: float) -> None:
        self.refuse(
            name,
            "out_of_range",
            "This must lie between %(low)s and %(high)s.",
            low=f"{low:,}",
            high=f"{high:,}",
        )


def checked_name(field: str, text: str) -> str:
    """A name in its one form, when one can see all of it.

    Raises:
        InvalidInput: invisible_character, which it names.
    """
    name = normal_name(text)
    if (unseen := unseen_character(name)) is not None and is_clean(name):
        raise InvalidInput.one(field, "invisible_character", INVISIBLE_CHARACTER, character=unseen)
    return name


def remark_of(field: str, text: str) -> str:
    """What a person wrote of an act, as it is stored; at most `MAX_REMARK_CHARS`.

    Raises:
        InvalidInput: it is too long, or has control characters other than line ends and tabs.
    """
    fields = Fields({field: text}, "", [])
    told = fields.text(field, max_chars=MAX_REMARK_CHARS, lines=True)
    raise_if_any(fields.problems)
    return told


def is_clean(text: str, *, lines: bool = False) -> bool:
    """Whether text can be stored, put into a header and read as it was written."""
    if text.isascii() and text.isprintable():  # nearly always; a bulk import reads many texts
        return True
    return all(
        (lines and char in "\n\t")
        or (unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") and char not in _REORDERING)
        for char in text
    )


def closest(text: str, known: Collection[str]) -> str | None:
    """The known word that `text` was probably meant to be."""
    matches = difflib.get_close_matches(text[:200], known, n=1)
    if not matches and len(text) >= 3:
        matches = [word for word in known if word.startswith(text)]
    return matches[0] if matches else None


def instant_from_iso(text: str) -> int:
    """Epoch milliseconds of an ISO 8601 text that names its offset; ValueError otherwise."""
    if not _INSTANT.fullmatch(text):
        raise ValueError(f"not an instant: {text[:50]!r}")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the offset from UTC is missing")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def is_instant(at: int) -> bool:
    """Whether UTC epoch milliseconds lie in a year that dates can name, 1 to 9999."""
    return MIN_INSTANT <= at <= MAX_INSTANT


def instant_to_iso(at: int) -> str:
    """ISO 8601 in UTC; the exact inverse of `instant_from_iso`. Takes what `is_instant`."""
    moment = _EPOCH + timedelta(milliseconds=at)
    return moment.isoformat(timespec="milliseconds" if at % 1000 else "seconds")[:-6] + "Z"


def optional_iso(at: int | None) -> str | None:
    """The same; None for None."""
    return None if at is None else instant_to_iso(at)


def as_seconds(ms: int) -> int | float:
    """Milliseconds as seconds, whole where they are."""
    return ms // 1000 if ms % 1000 == 0 else ms / 1000


def raise_if_any(problems: list[Problem]) -> None:
    """Raise InvalidInput with everything that was noted."""
    if problems:
        raise InvalidInput(problems)
