"""Values of databases as JSON, and rows as CSV."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from tickwheel_executor.text import clean

_EXACT = 2**53  # larger integers lose digits in programs that only know 64-bit floats
_MAX_DEPTH = 20


def json_value(value: object, depth: int = 0) -> Any:
    """The value as JSON; exact where a number could not be, as text.

    Decimal and integers beyond 2⁵³ become text, bytes base64, dates and times ISO 8601.
    """
    match value:
        case None | bool():
            return value
        case Enum():
            return json_value(value.value, depth)
        case str():
            return clean(value)
        case int():
            return int(value) if -_EXACT <= value <= _EXACT else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal() | UUID():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return _duration(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(bytes(value)).decode()
        case Mapping() if depth < _MAX_DEPTH:
            return {clean(str(key)): json_value(each, depth + 1) for key, each in value.items()}
        case list() | tuple() | set() | frozenset() if depth < _MAX_DEPTH:
            return [json_value(each, depth + 1) for each in value]
        case _:  # addresses, ranges, points: their text is what the database shows
            return clean(str(value))


def weight(value: object) -> int:
    """About how many bytes a value, or a row of them, takes; never too few by much."""
    match value:
        case str() | bytes() | bytearray():
            return len(value) + 8
        case memoryview():
            return value.nbytes + 8
        case Mapping():
            return sum(weight(key) + weight(each) for key, each in value.items()) + 8
        case Sequence() | set() | frozenset():
            return sum(map(weight, value)) + 8
        case Decimal():
            return len(value.as_tuple().digits) + 8
        case int():
            return value.bit_length() // 8 + 8
        case _:
            return 16


def column_names(names: Iterable[str]) -> list[str]:
    """Names of columns, those that come twice with a number: id, id_2."""
    found: list[str] = []
    for name in names:
        number, unique = 2, name
        while unique in found:
            unique = f"{name}_{number}"
            number += 1
        found.append(unique)
    return found


def csv_line(values: Sequence[object]) -> str:
    """One line of CSV (RFC 4180) without its line end."""
    text = io.StringIO()
    row = []
    for value in values:
        shown = json_value(value)
        is_deep = isinstance(shown, dict | list)
        row.append(str(value) if is_deep else "" if shown is None else shown)
    csv.writer(text, lineterminator="").writerow(row)
    return text.getvalue()


def _duration(value: timedelta) -> str:
    """As MySQL writes a TIME: [-]HHH:MM:SS[.ffffff]."""
    sign = "-" if value < timedelta() else ""
    seconds, fraction = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}" if fraction else text
