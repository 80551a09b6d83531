"""Which JSON is held, and which is refused before anybody keeps it."""

from __future__ import annotations

import json

import msgspec
import pytest

from tickwheel_shared.portable_json import (
    HUGE_NUMBER,
    LARGEST,
    MAX_DEPTH,
    TOO_DEEP,
    has_huge_number,
    why_not_portable,
)

HELD = (
    "null",
    "1.7976931348623157e308",
    str(LARGEST),
    str(-LARGEST),
    "1" + "0" * 5_000 + "e-5000",
    "0." + "3" * 5_000,
    "1e-99999",
    "0e99999",
    '{"客户":[1,-2.5e3,"1e999","' + "9" * 400 + '"]}',
)
HUGE = ("1e400", '{"a":[{"b":1E+999}]}', "-1e309", "9" * 309, f'["a",-{"9" * 400}]')
LONG = ("1" * 5_000, "1" * 60_000)  # digits that Python refuses to read
BROKEN = ("", "garbage", '{"a":', "NaN", "-Infinity", '"\\ud800"', "[" * 60_000)


@pytest.mark.parametrize("text", HELD)
def test_what_is_held_is_the_same_for_every_reader(text: str) -> None:
    assert why_not_portable(text.encode()) is None
    assert not has_huge_number(json.loads(text))
    assert json.loads(json.dumps(json.loads(text), allow_nan=False)) == msgspec.json.decode(text)


@pytest.mark.parametrize("text", [*HUGE, *LONG])
def test_a_number_that_nobody_can_hold_is_named_as_such(text: str) -> None:
    assert why_not_portable(text.encode()) == HUGE_NUMBER
    if text in HUGE:
        assert has_huge_number(json.loads(text))


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_json_says_where(text: str) -> None:
    assert why_not_portable(text.encode()) not in (None, HUGE_NUMBER)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), TOO_DEEP),
        ('{"a":' * 5_000 + "1" + "}" * 5_000, TOO_DEEP),
        ("[" + ",".join(["[]"] * 1_000) + "]", None),  # wide is not deep
        (json.dumps("[" * 1_000), None),  # nor is a text
    ],
)
def test_what_is_nested_too_deeply_for_some_readers(text: str, problem: str | None) -> None:
    assert why_not_portable(text.encode()) == problem
