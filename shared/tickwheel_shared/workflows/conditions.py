"""Conditions of steps (`when`): a small language without side effects, loops or recursion.

    size(steps.extract.result.files) > 0 and not (parameters.mode in ["dry", "test"])

Comparisons (`==`, `!=`, `<`, `<=`, `>`, `>=`, `in`), `and`, `or`, `not` (also `&&`, `||`, `!`),
literals of JSON, paths (`tickwheel_shared.workflows.paths`), and the functions of `FUNCTIONS`. A
condition is at most MAX_CHARS long, so its cost is bounded by that and the size of the values that
it reads. It is compiled once. Record 9 says why no library evaluates it.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tickwheel_shared.words import Word
from tickwheel_shared.workflows.paths import (
    ROOTS,
    NoValue,
    Path,
    Scope,
    in_words,
    read_path,
    value_at,
)
from tickwheel_shared.workflows.values import BadValue, missing, too_deep

MAX_CHARS = 2_000
MAX_NESTING = 30
_BLANK = re.compile(r"\s*")
_NUMBER = re.compile(
    r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII
)
_TEXT = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"' + r"|'(?:[^'\\\x00-\x1f]|\\.)*'")
_SYMBOL = re.compile(r"==|!=|<=|>=|&&|\|\||[<>!()\[\],]")
_WORDS = {"true": True, "false": False, "null": None}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Evaluate = Callable[[Scope], Any]


class BadCondition(ValueError):
    """A text that is no condition.

    Args:
        column: where, from 1.
        expected: what could stand there.
    """

    def __init__(self, column: int, expected: str) -> None:
        self.column = column
        self.expected = expected
        super().__init__(f"column {column}: {expected} was expected here")


@dataclass(frozen=True, slots=True)
class StepCondition:
    """A condition that can be asked."""

    text: str
    paths: frozenset[Path]  # that it may read
    _evaluate: Evaluate

    def holds(self, scope: Scope) -> bool:
        """Whether it is met.

        Raises:
            BadValue: value.missing; value.too_deep; condition.type for values that it cannot
                compare, or if it says neither true nor false.
        """
        try:
            value = self._evaluate(scope)
        except NoValue as error:
            raise missing(error) from error
        except RecursionError as error:
            raise too_deep() from error
        return _boolean(value)


@lru_cache(maxsize=1_000)
def compile_condition(text: str) -> StepCondition:
    """The condition that a text says; raises BadCondition."""
    if len(text) > MAX_CHARS:
        raise BadCondition(MAX_CHARS, f"the end of at most {MAX_CHARS:,} characters")
    reader = _Reader(text)
    evaluate = reader.whole()
    return StepCondition(text, frozenset(reader.paths), evaluate)


class _Reader:
    """Reads a condition from left to right."""

    def __init__(self, text: str) -> None:
        self.paths: list[Path] = []
        self._text = text
        self._at = 0
        self._depth = 0
        self._skip_blanks()

    def whole(self) -> Evaluate:
        found = self._either()
        if self._at < len(self._text):
            raise self._expected(Word("an operator, or the end,"))
        return found

    def _either(self) -> Evaluate:
        found = self._both()
        while self._take("||") or self._take_word("or"):
            found = _or(found, self._both())
        return found

    def _both(self) -> Evaluate:
        found = self._negated()
        while self._take("&&") or self._take_word("and"):
            found = _and(found, self._negated())
        return found

    def _negated(self) -> Evaluate:
        if self._text.startswith("!=", self._at):
            raise self._expected(Word("a value"))
        if self._take("!") or self._take_word("not"):
            self._deeper()
            inner = self._negated()
            self._depth -= 1
            return lambda scope: not _boolean(inner(scope))
        return self._comparison()

    def _comparison(self) -> Evaluate:
        left = self._operand()
        symbol = self._symbol()
        if symbol in ("==", "!="):
            self._at += 2
            self._skip_blanks()
            right, wanted = self._operand(), symbol == "=="
            return lambda scope: _equal(left(scope), right(scope)) is wanted
        if symbol in _ORDER:
            self._at += len(symbol)
            self._skip_blanks()
            return _ordered(symbol, left, self._operand())
        if self._take_word("in"):
            right = self._operand()
            return lambda scope: _is_in(left(scope), right(scope))
        return left

    def _operand(self) -> Evaluate:
        self._deeper()
        found = self._value()
        self._depth -= 1
        return found

    def _value(self) -> Evaluate:
        if self._take("("):
            inner = self._either()
            self._must(")")
            return inner
        if self._take("["):
            return self._list()
        if text := _TEXT.match(self._text, self._at):
            return self._constant(self._unquoted(text.group()), text.end())
        if number := _NUMBER.match(self._text, self._at):
            return self._constant(json.loads(number.group()), number.end())
        read = read_path(self._text, self._at)
        if read is None:
            raise self._expected(Word("a value"))
        path, end = read
        name = str(path[0])
        if len(path) == 1 and name in _WORDS:
            return self._constant(_WORDS[name], end)
        if len(path) == 1 and self._text.startswith("(", end):
            return self._call(name, end)
        if name not in ROOTS:
            raise self._expected(f"one of {', '.join(ROOTS)}, or a text in quotes,")
        self._move_to(end)
        self.paths.append(path)
        return lambda scope: value_at(scope, path)

    def _list(self) -> Evaluate:
        parts: list[Evaluate] = []
        while not self._take("]"):
            if parts:
                self._must(",")
            parts.append(self._operand())
        return lambda scope: [part(scope) for part in parts]

    def _call(self, name: str, end: int) -> Evaluate:
        if name not in FUNCTIONS:
            raise self._expected(f"one of the functions {', '.join(FUNCTIONS)}")
        self._move_to(end + 1)
        if name == "has":
            return self._has()
        count, function = FUNCTIONS[name]
        given: list[Evaluate] = []
        while len(given) < count:
            if given:
                self._must(",")
            given.append(self._operand())
        self._must(")")
        return lambda scope: function(*(each(scope) for each in given))

    def _has(self) -> Evaluate:
        read = read_path(self._text, self._at)
        if read is None or read[0][0] not in ROOTS:
            raise self._expected(Word("a path, such as steps.extract.result,"))
        path, end = read
        self._move_to(end)
        self._must(")")
        self.paths.append(path)
        return lambda scope: _is_there(scope, path)

    def _constant(self, value: Any, end: int) -> Evaluate:
        self._move_to(end)
        return lambda scope: value

    def _unquoted(self, text: str) -> str:
        if text[0] == "'":
            text = '"' + text[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
        try:
            return str(json.loads(text))
        except ValueError as error:
            raise self._expected(Word("a text with the escapes of JSON")) from error

    def _symbol(self) -> str:
        found = _SYMBOL.match(self._text, self._at)
        return "" if found is None else found.group()

    def _take(self, symbol: str) -> bool:
        if self._symbol() != symbol:
            return False
        self._move_to(self._at + len(symbol))
        return True

    def _take_word(self, word: str) -> bool:
        end = self._at + len(word)
        if self._text[self._at : end] != word or self._text[end : end + 1].isalnum():
            return False
        self._move_to(end)
        return True

    def _must(self, symbol: str) -> None:
        if not self._take(symbol):
            raise self._expected(f"“{symbol}”")

    def _move_to(self, at: int) -> None:
        self._at = at
        self._skip_blanks()

    def _skip_blanks(self) -> None:
        found = _BLANK.match(self._text, self._at)
        self._at = self._at if found is None else found.end()

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._expected(Word("less nesting"))

    def _expected(self, what: str) -> BadCondition:
        return BadCondition(self._at + 1, what)


def _and(left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda scope: _boolean(left(scope)) and _boolean(right(scope))


def _or(left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda scope: _boolean(left(scope)) or _boolean(right(scope))


def _ordered(symbol: str, left: Evaluate, right: Evaluate) -> Evaluate:
    compare = _ORDER[symbol]

    def evaluate(scope: Scope) -> bool:
        one, other = left(scope), right(scope)
        if (_is_number(one) and _is_number(other)) or (
            isinstance(one, str) and isinstance(other, str)
        ):
            return compare(one, other)
        raise _type(f"“{symbol}” compares two numbers or two texts")

    return evaluate


def _equal(one: Any, other: Any) -> bool:
    """As JSON sees it: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return bool(one == other)


def _is_in(part: Any, whole: Any) -> bool:
    if isinstance(whole, list):
        return any(_equal(part, each) for each in whole)
    if isinstance(whole, dict) and isinstance(part, str):
        return part in whole
    if isinstance(whole, str) and isinstance(part, str):
        return part in whole
    raise _type("“in” looks in a list, for a key in an object, or for a text in a text")


def _size(value: Any) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    raise _type("“size” counts a list, an object or a text")


def _starts_with(text: Any, start: Any) -> bool:
    if isinstance(text, str) and isinstance(start, str):
        return text.startswith(start)
    raise _type("“starts_with” takes two texts")


def _ends_with(text: Any, end: Any) -> bool:
    if isinstance(text, str) and isinstance(end, str):
        return text.endswith(end)
    raise _type("“ends_with” takes two texts")


def _is_there(scope: Scope, path: Path) -> bool:
    try:
        return value_at(scope, path) is not None
    except NoValue:
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _type("a condition must say true or false, and so must both sides of “and” and “or”")


def _type(rule: str) -> BadValue:
    return BadValue("condition.type", f"The condition cannot be answered: {rule}.")


# By name: how many arguments, and what it does. `has` looks at a path, not at its value.
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "size": (1, _size),
    "has": (1, in_words),
    "starts_with": (2, _starts_with),
    "ends_with": (2, _ends_with),
}
