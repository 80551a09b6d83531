"""Conditions: what they answer, what they refuse, and that they end."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tickwheel_shared.workflows.conditions import (
    MAX_CHARS,
    MAX_NESTING,
    BadCondition,
    compile_condition,
)
from tickwheel_shared.workflows.paths import in_words
from tickwheel_shared.workflows.values import BadValue

SCOPE: dict[str, Any] = {
    "parameters": {"mode": "dry", "n": 3, "none": None, "tags": {"a": 1}, "yes": True},
    "steps": {
        "extract-all": {"state": "succeeded", "result": {"files": ["a", "b"], "rows": 2**70}}
    },
    "run": {"id": 7},
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("true", True),
        ("parameters.yes", True),
        ("not parameters.yes", False),
        ("!parameters.yes || true", True),
        ("parameters.n == 3.0", True),
        ("parameters.n != 3", False),
        ("parameters.n == true", False),
        ("1 == true", False),
        ("parameters.n >= 3 and parameters.n<4", True),
        ("parameters.mode == 'dry'", True),
        ('parameters.mode in ["test", "dry"]', True),
        ("parameters.mode in['test']", False),
        ("'a' in parameters.tags", True),
        ("'r' in parameters.mode", True),
        ("size(steps.extract-all.result.files) > 1", True),
        ('steps["extract-all"].state == "succeeded"', True),
        ("steps.extract-all.result.rows > 1e20", True),
        ("steps.extract-all.result.files == ['a','b']", True),
        ("has(steps.extract-all.result.rows)", True),
        ("has(steps.load.result)", False),
        ("has(parameters.none)", False),
        ("parameters.none == null", True),
        ("false and parameters.missing", False),
        ("true or parameters.missing == 1", True),
        ("true or false and false", True),
        ("(true or false) and false", False),
        ("not true or true", True),
        ("not (true or true)", False),
        ("starts_with(parameters.mode, 'd')", True),
        ("ends_with(parameters.mode, 'd')", False),
        (r"'it\'s' == " + '"it\'s"', True),
        ("'“' == '\\u201c'", True),
        ("-1 < 0", True),
        ("[] == []", True),
    ],
)
def test_answers(text: str, holds: bool) -> None:
    assert compile_condition(text).holds(SCOPE) is holds


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("parameters.missing == 1", "value.missing"),
        ("steps.load.result", "value.missing"),
        ("parameters.n", "condition.type"),
        ("parameters.n and true", "condition.type"),
        ("true and parameters.n", "condition.type"),
        ("parameters.n < 'a'", "condition.type"),
        ("true < false", "condition.type"),
        ("1 in 2", "condition.type"),
        ("size(1) > 0", "condition.type"),
        ("starts_with(1, 'a')", "condition.type"),
    ],
)
def test_what_cannot_be_answered_says_so(text: str, code: str) -> None:
    with pytest.raises(BadValue) as caught:
        compile_condition(text).holds(SCOPE)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("   ", 4),
        ("1 ==", 5),
        ("(true", 6),
        ("true)", 5),
        ("true true", 6),
        ("mode == 1", 1),
        ("parameters.n = 3", 14),
        ("parameters.n + 1 > 2", 14),
        ("eval('x')", 1),
        ("size(item, 1) > 0", 10),
        ("has(1)", 5),
        ("[1, 2", 6),
        ("'open", 1),
        ("'a' == '\\x'", 8),
        ("__import__('os')", 1),
        ("(" * (MAX_NESTING + 1) + "true" + ")" * (MAX_NESTING + 1), MAX_NESTING + 1),
        ("!" * (MAX_NESTING + 1) + "true", MAX_NESTING + 2),
        ("true " * MAX_CHARS, MAX_CHARS),
    ],
)
def test_what_is_no_condition_is_refused_at_its_place(text: str, column: int) -> None:
    with pytest.raises(BadCondition) as caught:
        compile_condition(text)
    assert caught.value.column == column


def test_paths_that_it_may_read() -> None:
    condition = compile_condition("has(steps.a.result) and steps.b.state == item.x")
    assert {in_words(path) for path in condition.paths} == {
        "steps.a.result",
        "steps.b.state",
        "item.x",
    }


def test_compiled_once() -> None:
    assert compile_condition("run.id == 7") is compile_condition("run.id == 7")


_PIECES = [
    "(",
    ")",
    "[",
    "]",
    ",",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "and",
    "or",
    "not",
    "&&",
    "||",
    "!",
    "true",
    "false",
    "null",
    "1",
    "-2.5",
    "'a'",
    "size(",
    "has(",
    "item",
    "parameters.n",
    "parameters.none",
    "steps.a.result",
    "run.id",
    '"open',
    "\\",
    "$",
    "é",
]
_PLAIN: list[Any] = [None, True, 0, -1.5, 2**70, "a", [], ["a", 1], {"a": None}]


def answer(text: str, value: Any) -> str | bool:
    scope = {"parameters": {"n": value, "none": None}, "steps": {}, "run": {"id": 1}, "item": value}
    try:
        condition = compile_condition(text)
    except BadCondition as error:
        return "refused" if 1 <= error.column <= len(text) + 1 else f"column {error.column}"
    try:
        return condition.holds(scope)
    except BadValue as error:
        return error.code


def test_whatever_is_written_is_answered_or_refused() -> None:
    rng = Random(22)
    seen = {
        answer(" ".join(rng.choice(_PIECES) for _ in range(rng.randint(1, 7))), rng.choice(_PLAIN))
        for _ in range(20_000)
    }
    assert seen == {"refused", True, False, "value.missing", "condition.type"}
