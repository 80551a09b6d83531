"""Parameters against the schemas of handlers: what is refused and where; no schema is a trap."""

from __future__ import annotations

import enum
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import msgspec
import pytest

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input import parameter_problems as problems_in_words
from tickwheel_admin.domain.input.parameter_problems import MAX_GUESSED_CHARS, MAX_TOLD
from tickwheel_admin.domain.input.parameter_schema import (
    MAX_GUESSES,
    Work,
    check_parameters,
    parameter_problems,
)


def told(schema: Any, parameters: Any, **how: Any) -> list[tuple[str, str, str]]:
    """(field, code, message) of each problem."""
    found = parameter_problems(json.dumps(schema), json.dumps(parameters), **how)
    return [(each.field, each.code, each.message) for each in found]


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


# --- each keyword --------------------------------------------------------------------------------

WRONG: list[tuple[Any, Any, str, str, str]] = [
    ({"type": "string"}, 11, "a", "wrong_type", "This must be text."),
    ({"type": "integer"}, "11", "a", "wrong_type", "This must be a whole number."),
    ({"type": "integer"}, True, "a", "wrong_type", "This must be a whole number."),
    ({"type": "integer"}, 1.5, "a", "wrong_type", "This must be a whole number."),
    ({"type": "number"}, False, "a", "wrong_type", "This must be a number."),
    ({"type": "boolean"}, 1, "a", "wrong_type", "This must be true or false."),
    ({"type": "array"}, {}, "a", "wrong_type", "This must be a list."),
    ({"type": "object"}, [], "a", "wrong_type", "This must be an object."),
    ({"type": "null"}, 0, "a", "wrong_type", "This must stay empty (null)."),
    ({"type": ["string", "null"]}, 1, "a", "wrong_type", "This must be text."),
    (
        {"type": ["string", "integer"]},
        [],
        "a",
        "wrong_type",
        "This must be one of string, integer.",
    ),
    ({"enum": ["x", 1, None]}, True, "a", "not_one_of", 'This must be one of "x", 1, null.'),
    ({"const": "x"}, "y", "a", "not_one_of", 'This must be one of "x".'),
    ({"minLength": 2}, "发", "a", "too_short", "At least 2 characters, please."),
    ({"maxLength": 1}, "发票", "a", "too_long", "At most 1 characters, please."),
    ({"minItems": 1}, [], "a", "too_short", "At least 1 entries, please."),
    ({"maxItems": 1}, [1, 2], "a", "too_long", "At most 1 entries, please."),
    ({"maxProperties": 0}, {"b": 1}, "a", "too_long", "At most 0 entries, please."),
    ({"minimum": 1}, 0, "a", "out_of_range", "This must be at least 1."),
    ({"exclusiveMinimum": 1}, 1, "a", "out_of_range", "This must be more than 1."),
    ({"maximum": 1000}, 1001, "a", "out_of_range", "This must be at most 1,000."),
    ({"exclusiveMaximum": 1.5}, 1.5, "a", "out_of_range", "This must be less than 1.5."),
    ({"multipleOf": 0.1}, 0.35, "a", "out_of_range", "This must be a multiple of 0.1."),
    ({"multipleOf": 5}, 6, "a", "out_of_range", "This must be a multiple of 5."),
    (
        {"format": "date-time"},
        "tomorrow",
        "a",
        "wrong_format",
        "This must be a date and time such as 2026-03-01T09:00:00Z.",
    ),
    (
        {"format": "date"},
        "2026-02-30",
        "a",
        "wrong_format",
        "This must be a date such as 2026-03-01.",
    ),
    (
        {"items": {"type": "integer"}},
        [1, "2"],
        "a[1]",
        "wrong_type",
        "This must be a whole number.",
    ),
    (
        {"prefixItems": [{}], "items": False},
        [1, 2],
        "a[1]",
        "not_allowed",
        "Nothing is allowed here.",
    ),
    (
        {"allOf": [{"minimum": 1}, {"maximum": 2}]},
        3,
        "a",
        "out_of_range",
        "This must be at most 2.",
    ),
    (
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "x",
        "a",
        "wrong_type",
        "This must be a whole number.",
    ),
    (
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        0,
        "a",
        "out_of_range",
        "This must be at least 1.",
    ),
    (
        {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "x",
        "a",
        "wrong_type",
        "This must be one of integer, boolean.",
    ),
    (
        {"anyOf": [{"minLength": 5}, {"maxLength": 1}]},
        "abc",
        "a",
        "no_form_fits",
        "This has none of the forms that are allowed.",
    ),
    (of(b={"type": "string"}), {"b": 1}, "a.b", "wrong_type", "This must be text."),
]


@pytest.mark.parametrize(("schema", "value", "field", "code", "message"), WRONG)
def test_what_breaks_a_rule_is_named_with_its_place(
    schema: Any, value: Any, field: str, code: str, message: str
) -> None:
    assert told(of(a=schema), {"a": value}) == [(f"parameters.{field}", code, message)]


def test_unknown_and_missing_parameters() -> None:
    schema = of(month={}, copies={}) | {"required": ["month"]}
    assert told(schema, {"mont": 1}) == [
        ("parameters.month", "required", "This is required."),
        (
            "parameters.mont",
            "unknown_field",
            "There is no parameter “mont”; did you mean “month”?",
        ),
    ]
    assert told(schema, {"mont": 1}, partial=True, field="p") == [
        ("p.mont", "unknown_field", "There is no parameter “mont”; did you mean “month”?")
    ]
    [(_, _, message)] = told(schema, {"month": 1, "zzz": 1})
    assert message == "There is no parameter “zzz”; known are month, copies."
    [(_, _, message)] = told(of(), {"zzz": 1})
    assert message == "There is no parameter “zzz”."
    # Only what the person fills in may be missing, not parts of it.
    inner = of(a=of() | {"required": ["b"], "additionalProperties": True})
    assert [field for field, *_ in told(inner, {"a": {}}, partial=True)] == ["parameters.a.b"]


def test_it_is_raised_with_every_problem() -> None:
    schema = of(a={"type": "string"}, b={"type": "string"})
    with pytest.raises(InvalidInput) as caught:
        check_parameters(json.dumps(schema), '{"a":1,"b":2}')
    assert [each.field for each in caught.value.problems] == ["parameters.a", "parameters.b"]
    many = told({"additionalProperties": {"type": "string"}}, {str(n): n for n in range(1_000)})
    assert len(many) == MAX_TOLD


# --- as the node reads it ------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct, forbid_unknown_fields=True):
    x: int
    y: float = 0.0


TYPES: list[Any] = [
    str,
    int,
    float,
    bool,
    None,
    Any,
    Optional[int],  # noqa: UP045 - as people write it
    Annotated[int, msgspec.Meta(ge=0, lt=10)],
    Annotated[str, msgspec.Meta(min_length=1, max_length=3)],
    Literal["a", "b", 3],
    Color,
    Point,
    Point | None,
    list[Point],
    tuple[int, str],
    dict[str, int],
    dict[str, list[int] | None],
    date,
    Annotated[datetime, msgspec.Meta(tz=True)],  # msgspec names no format without
    timedelta,
    UUID,
    Decimal,
    int | str,
]
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    9,
    10,
    2**70,
    1.5,
    "",
    "a",
    "abcd",
    "red",
    3,
    "2026-03-01",
    "2026-03-01T09:00:00Z",
    "PT1H",
    "12.50",
    "123e4567-e89b-42d3-a456-426614174000",
    [],
    [1, "x"],
    [1, "x", 2],
    [{"x": 1}],
    {},
    {"x": 1},
    {"x": 1, "y": 2.5},
    {"x": 1, "z": 1},
    {"k": [1, 2]},
    {"k": None},
    {"k": ["1"]},
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_it_refuses_what_the_node_would_refuse_and_nothing_else(kind: Any) -> None:
    struct = msgspec.defstruct("Parameters", [("value", kind)], forbid_unknown_fields=True)
    schema = json.dumps(msgspec.json.schema(struct))
    for value in VALUES:
        text = json.dumps({"value": value})
        try:
            msgspec.json.decode(text, type=struct)
            is_taken = True
        except msgspec.ValidationError:
            is_taken = False
        assert (parameter_problems(schema, text) == []) == is_taken, value


# --- traps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        True,
        5,
        [],
        {"type": 5},
        {"type": ["nonsense", {}]},
        {"type": "nonsense"},
        {"properties": []},
        {"properties": {"a": "x"}},
        {"required": "month"},
        {"required": [1]},
        {"enum": {}},
        {"anyOf": "x"},
        {"anyOf": [5]},
        {"minimum": "1", "multipleOf": 0, "minProperties": "x"},
        {"$ref": 5},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#/$defs/none"},
        {"$ref": "#/$defs/a", "$defs": 5},
        {"additionalProperties": 5},
        {"properties": {"a": {"items": 5, "prefixItems": 5, "format": 5}}},
        {"patternProperties": {"^(a+)+$": False}, "additionalProperties": False},
        {"pattern": "^(a+)+$"},
    ],
)
def test_a_schema_that_makes_no_sense_asks_for_nothing(schema: Any) -> None:
    assert told(schema, {"a": ["b"], "n": 10**400, "t": "x"}) == []


def bomb() -> dict[str, Any]:
    """Each form leads to two others, sixty times over."""
    forms = {
        f"f{n}": {"anyOf": [{"$ref": f"#/$defs/f{n + 1}"}, {"$ref": f"#/$defs/f{n + 1}"}]}
        for n in range(60)
    }
    return {"$ref": "#/$defs/f0", "$defs": forms | {"f60": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "parameters"),
    [
        (bomb(), {"a": 1}),
        ({"$ref": "#"}, {"a": 1}),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, {"a": 1}),
        (
            {"additionalProperties": {"items": {"enum": list(range(3_000))}}},
            {"a": [2_999] * 20_000 + ["never reached"]},
        ),
    ],
)
def test_no_schema_costs_more_than_some_steps(schema: Any, parameters: Any) -> None:
    """Without the limit the first would take longer than the universe has been there."""
    assert told(schema, parameters) == []


def test_numbers_that_no_float_holds() -> None:
    assert told(of(a={"maximum": 1.5}), {"a": 10**400})[0][1] == "out_of_range"
    assert told(of(a={"multipleOf": 0.1}), {"a": 10**400}) == []


def to_many(inner: dict[str, Any], forms: int = 400) -> dict[str, Any]:
    """A schema of a few KiB that looks at the same thing very often."""
    twenty = {"anyOf": [{"$ref": "#/$defs/inner"}] * 20}
    return {"anyOf": [{"$ref": "#/$defs/twenty"}] * forms} | {
        "$defs": {"inner": inner, "twenty": twenty}
    }


def test_few_unknown_names_are_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing names letter by letter takes a hundred times as long as any other step."""
    guessed: list[int] = []

    def closest(text: str, known: list[str]) -> None:
        guessed.append(max(map(len, [text, *known])))

    monkeypatch.setattr(problems_in_words, "closest", closest)
    named = {"properties": {f"name-{n}": {} for n in range(20)}, "additionalProperties": False}
    assert told(to_many(named), {f"nam-{n}-{'x' * 200}": 1 for n in range(20)}) == []
    assert len(guessed) == MAX_GUESSES
    assert max(guessed) <= MAX_GUESSED_CHARS


@pytest.mark.parametrize(
    ("inner", "value"),
    [
        ({"enum": ["x" * 4_000]}, "y"),
        ({"const": 10**4_000}, 1),
    ],
)
def test_choices_are_put_into_words_once(
    inner: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, parameters = json.dumps(of(a=to_many(inner))), json.dumps({"a": value})
    schema = schema.replace("#/$defs", "#/properties/a/$defs")
    words = 0

    def dumps(value: Any, **how: Any) -> str:
        nonlocal words
        words += 1
        return "…"

    monkeypatch.setattr(json, "dumps", dumps)
    assert parameter_problems(schema, parameters) == []
    assert words == 1


def test_what_is_long_costs_more_steps() -> None:
    """A check that was given up told nothing of what it had not looked at."""
    wrong = {"type": "string"}
    for inner, value in (
        ({"format": "decimal"}, "1" * 60_000),
        ({"minimum": 1}, 10**4_000),
        ({"maximum": 10**4_000}, 1),
    ):
        cheap = {"allOf": [inner]}
        assert len(told(of(a=cheap, b=wrong), {"a": value, "b": 1})) == 1
        costly = {"allOf": [inner] * 300}
        assert told(of(a=costly, b=wrong), {"a": value, "b": 1}) == []


def test_checks_that_belong_together_share_their_work() -> None:
    schema, parameters = json.dumps(to_many({"const": 1})), json.dumps({"a": 1})
    wrong = json.dumps(of(a={"type": "string"}))
    work = Work()
    assert len(parameter_problems(wrong, parameters, work=work)) == 1
    parameter_problems(schema, parameters, work=work)
    assert parameter_problems(wrong, parameters, work=work) == []
    assert len(parameter_problems(wrong, parameters)) == 1


def test_a_limit_of_thousands_of_digits_is_told_in_part() -> None:
    ((_, code, message),) = told(of(a={"maximum": -(10**4_000)}), {"a": 1})
    assert code == "out_of_range"
    assert len(message) < 200
