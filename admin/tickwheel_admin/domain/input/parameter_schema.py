"""Whether a run's parameters are what its handler takes, by the JSON Schema that the handler sent.

This is the part of JSON Schema 2020-12 that signatures give, read so that no schema can be a trap:
references lead to its own `$defs` alone, there are no patterns, and the work is bounded. What is
not checked here (`pattern`, `not`, `if` …) passes: the node checks everything before it calls the
handler. A schema that makes no sense asks for nothing.
"""

from __future__ import annotations

import contextlib
import json
import operator
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from tickwheel_admin.domain.errors import InvalidInput, Problem, Word
from tickwheel_admin.domain.input.parameter_problems import (
    MAX_TOLD,
    choices_in_words,
    inner,
    number_in_words,
    problem_at,
    unknown_name,
    wrong_type_of,
)
from tickwheel_admin.domain.jobs.secret_references import MARK

MAX_STEPS = 10_000  # well below 0.1 s
MAX_DEPTH = 100  # of references and values within each other
MAX_GUESSES = 20  # at what an unknown name was meant to be
CHARS_PER_STEP = 100  # of a text or a number that is read as a whole

_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
_FORMATS: dict[str, tuple[type[Any], str]] = {
    "date-time": (datetime, Word("This must be a date and time such as 2026-03-01T09:00:00Z.")),
    "date": (date, Word("This must be a date such as 2026-03-01.")),
    "time": (time, Word("This must be a time such as 09:00:00.")),
    "duration": (timedelta, Word("This must be a length of time such as PT1H30M.")),
    "uuid": (UUID, Word("This must be a UUID such as 123e4567-e89b-42d3-a456-426614174000.")),
    "decimal": (Decimal, Word('This must be a decimal number in quotes, such as "12.50".')),
}


def _divides(value: float, unit: float) -> bool:
    try:
        if isinstance(unit, int) and isinstance(value, int):
            return unit <= 0 or value % unit == 0
        # Decimals as they are written: 0.3 is three times 0.1.
        return unit <= 0 or Decimal(str(value)) % Decimal(str(unit)) == 0
    except (ArithmeticError, ValueError):  # too large to tell
        return True


_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": (Word("This must be at least %(limit)s."), operator.ge),
    "exclusiveMinimum": (Word("This must be more than %(limit)s."), operator.gt),
    "maximum": (Word("This must be at most %(limit)s."), operator.le),
    "exclusiveMaximum": (Word("This must be less than %(limit)s."), operator.lt),
    "multipleOf": (Word("This must be a multiple of %(limit)s."), _divides),
}
_ENTRIES = (
    Word("At least %(limit)d entries, please."),
    Word("At most %(limit)d entries, please."),
)
_SIZES: dict[str, tuple[str, str]] = {
    "Length": (
        Word("At least %(limit)d characters, please."),
        Word("At most %(limit)d characters, please."),
    ),
    "Items": _ENTRIES,
    "Properties": _ENTRIES,
}


class _TooMuch(Exception):
    """The schema asks for more work than is done here."""


class Work:
    """How much may still be done, in steps of about 5 µs: one for all that belongs together."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._steps = steps
        self._guesses = MAX_GUESSES

    def take(self, steps: int) -> None:
        """Do so much of it; raises _TooMuch when that is more than there is."""
        self._steps -= steps
        if self._steps < 0:
            raise _TooMuch

    def take_guess(self) -> bool:
        """Whether there is time to guess what was meant."""
        self._guesses -= 1
        return self._guesses >= 0


def check_parameters(
    schema_text: str, parameters_text: str, *, field: str = "parameters", partial: bool = False
) -> None:
    """Refuse parameters that the handler would refuse.

    Args:
        schema_text: the handler's JSON Schema.
        parameters_text: a JSON object.
        field: what the paths of problems begin with.
        partial: some may still be missing.

    Raises:
        InvalidInput: one problem for each place, at most 20.
    """
    problems = parameter_problems(schema_text, parameters_text, field=field, partial=partial)
    if problems:
        raise InvalidInput(problems)


def parameter_problems(
    schema_text: str,
    parameters_text: str,
    *,
    field: str = "parameters",
    partial: bool = False,
    work: Work | None = None,
) -> list[Problem]:
    """The problems that `check_parameters` raises.

    Args:
        work: shared with other checks; None: this one has its own.
    """
    schema = json.loads(schema_text)
    check = _Check(schema, partial_at=field if partial else None, work=work or Work())
    problems: dict[str, Problem] = {}
    # After too much work, what was found so far is true all the same.
    with contextlib.suppress(_TooMuch, RecursionError):
        for problem in check.problems(schema, json.loads(parameters_text), field, 0):
            problems.setdefault(problem.field, problem)
            if len(problems) == MAX_TOLD:
                break
    return list(problems.values())


class _Check:
    """One look at one value; counts its steps."""

    def __init__(self, root: Any, *, partial_at: str | None, work: Work) -> None:
        self._root = root
        self._partial_at = partial_at
        self._work = work
        self._shown: dict[int, str] = {}  # choices in words, by the id of their schema

    def problems(self, schema: Any, value: Any, path: str, depth: int) -> Iterator[Problem]:
        """What is wrong with a value; the schema may be anything."""
        self._work.take(1 + _digits(value) // CHARS_PER_STEP)
        if depth > MAX_DEPTH:
            raise _TooMuch
        if schema is False:
            yield problem_at(path, "not_allowed", Word("Nothing is allowed here."))
        if not isinstance(schema, dict):
            return
        if schema.get("format") == "decimal" and _TYPES["number"](value):
            return  # said to be text, so that nothing is rounded; numbers are read as well
        wrong_type = _type_problem(schema.get("type"), value, path)
        if wrong_type is not None:
            yield wrong_type
            return
        yield from self._combined(schema, value, path, depth)
        if isinstance(value, str) and MARK in value:
            return  # what will stand there is not known
        yield from self._of_choices(schema, value, path)
        if isinstance(value, str):
            yield from self._of_text(schema, value, path)
        elif isinstance(value, bool):
            return
        elif isinstance(value, int | float):
            yield from self._of_number(schema, value, path)
        elif isinstance(value, list):
            yield from self._of_list(schema, value, path, depth)
        elif isinstance(value, dict):
            yield from self._of_object(schema, value, path, depth)

    def _combined(
        self, schema: dict[str, Any], value: Any, path: str, depth: int
    ) -> Iterator[Problem]:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield from self.problems(self._referred(reference), value, path, depth + 1)
        for each in _list(schema.get("allOf")):
            yield from self.problems(each, value, path, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            forms = _list(schema.get(keyword))
            if forms:
                yield from self._of_forms(forms, value, path, depth)

    def _of_forms(self, forms: list[Any], value: Any, path: str, depth: int) -> Iterator[Problem]:
        """It must fit one of several forms; else the one that it was probably meant to be tells."""
        refused: list[list[Problem]] = []
        for form in forms:
            found = []
            for problem in self.problems(form, value, path, depth + 1):
                found.append(problem)
                if len(found) == MAX_TOLD:
                    break
            if not found:
                return
            refused.append(found)
        meant = [found for found in refused if found[0].code != "wrong_type"]
        meant += [found for found in refused if found[0].field != path and found not in meant]
        if len(meant) == 1:
            yield from meant[0]
        elif meant:
            yield problem_at(
                path, "no_form_fits", Word("This has none of the forms that are allowed.")
            )
        else:
            names = [name for form in forms for name in self._type_names(form)]
            yield wrong_type_of(path, names)

    def _type_names(self, form: Any) -> list[str]:
        if not isinstance(form, dict):
            return []
        if isinstance(reference := form.get("$ref"), str):
            form = self._referred(reference)
        wanted = form.get("type") if isinstance(form, dict) else None
        names = wanted if isinstance(wanted, list) else [wanted]
        return [name for name in names if isinstance(name, str) and name in _TYPES]

    def _referred(self, reference: str) -> Any:
        """What a reference into the schema itself leads to; nothing else is followed."""
        self._work.take(1)
        if reference == "#":
            return self._root
        found = self._root
        for part in reference.removeprefix("#/").split("/")[:10]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found if reference.startswith("#/") else None

    def _of_choices(self, schema: dict[str, Any], value: Any, path: str) -> Iterator[Problem]:
        choices = _list(schema.get("enum"))
        if "const" in schema:
            choices = [schema["const"]]
        if not choices:
            return
        self._work.take(len(choices) // 10)
        if any(_may_be_same(each, value) for each in choices):
            return
        shown = self._shown.get(id(schema))
        if shown is None:
            shown = self._shown[id(schema)] = choices_in_words(choices)
        yield problem_at(path, "not_one_of", "This must be one of %(choices)s.", choices=shown)

    def _of_text(self, schema: dict[str, Any], value: str, path: str) -> Iterator[Problem]:
        yield from _of_size(schema, len(value), path, "Length")
        name = schema.get("format")
        if not isinstance(name, str) or name not in _FORMATS:
            return
        kind, template = _FORMATS[name]
        self._work.take(len(value) // CHARS_PER_STEP)
        try:
            msgspec.convert(value, kind)  # as the node reads it
        except msgspec.ValidationError:
            yield problem_at(path, "wrong_format", template)

    def _of_number(self, schema: dict[str, Any], value: float, path: str) -> Iterator[Problem]:
        for keyword, (template, fits) in _BOUNDS.items():
            limit = schema.get(keyword)
            if limit is None or not _TYPES["number"](limit):
                continue
            self._work.take(_digits(limit) // CHARS_PER_STEP)
            if not fits(value, limit):
                yield problem_at(path, "out_of_range", template, limit=number_in_words(limit))

    def _of_list(
        self, schema: dict[str, Any], value: list[Any], path: str, depth: int
    ) -> Iterator[Problem]:
        yield from _of_size(schema, len(value), path, "Items")
        first = _list(schema.get("prefixItems"))
        for index, each in enumerate(value):
            form = first[index] if index < len(first) else schema.get("items", True)
            yield from self.problems(form, each, f"{path}[{index}]", depth + 1)

    def _of_object(
        self, schema: dict[str, Any], value: dict[str, Any], path: str, depth: int
    ) -> Iterator[Problem]:
        yield from _of_size(schema, len(value), path, "Properties")
        named = schema.get("properties")
        named = named if isinstance(named, dict) else {}
        required = _list(schema.get("required"))
        self._work.take((len(named) + len(required)) // 10)
        if path != self._partial_at:
            for name in required:
                if isinstance(name, str) and name not in value:
                    yield problem_at(inner(path, name), "required", "This is required.")
        others = schema.get("additionalProperties", True)
        if "patternProperties" in schema and others is False:
            others = True  # which names they are is for the node to tell
        for name, each in value.items():
            if name in named:
                yield from self.problems(named[name], each, inner(path, name), depth + 1)
            elif others is False:
                self._work.take(1)
                yield unknown_name(path, name, named, guess=self._work.take_guess())
            else:
                yield from self.problems(others, each, inner(path, name), depth + 1)


def _type_problem(wanted: Any, value: Any, path: str) -> Problem | None:
    names = [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list) else []
    known = [name for name in names[: len(_TYPES)] if isinstance(name, str) and name in _TYPES]
    if not known or any(_TYPES[name](value) for name in known):
        return None
    return wrong_type_of(path, known)


def _digits(value: Any) -> int:
    """About how many a number has."""
    return value.bit_length() * 3 // 10 if isinstance(value, int) else 0


def _of_size(schema: dict[str, Any], size: int, path: str, what: str) -> Iterator[Problem]:
    """How long it is: `what` is the end of the keywords, such as "Items"."""
    too_short, too_long = _SIZES[what]
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    if isinstance(least, int) and size < least:
        yield problem_at(path, "too_short", too_short, limit=least)
    if isinstance(most, int) and size > most:
        yield problem_at(path, "too_long", too_long, limit=most)


def _may_be_same(one: Any, other: Any) -> bool:
    """Equal in JSON, where true is not 1; lists and objects are not looked into."""
    if isinstance(one, dict | list):
        return type(one) is type(other)
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
