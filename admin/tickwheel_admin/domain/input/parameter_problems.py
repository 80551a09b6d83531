"""What is wrong with a run's parameters, as problems with words for people."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

from tickwheel_admin.domain.errors import Problem, Word
from tickwheel_admin.domain.fields import closest

MAX_TOLD = 20  # problems, choices or names
MAX_SHOWN_CHARS = 50
MAX_GUESSED_CHARS = 40  # names are compared letter by letter

_WRONG_TYPE = {
    "string": Word("This must be text."),
    "integer": Word("This must be a whole number."),
    "number": Word("This must be a number."),
    "boolean": Word("This must be true or false."),
    "array": Word("This must be a list."),
    "object": Word("This must be an object."),
    "null": Word("This must stay empty (null)."),
}


def number_in_words(value: float) -> str:
    """A limit as people read it, cut when it is very long."""
    return f"{value:,}" if abs(value) < 10**15 else str(value)[:MAX_SHOWN_CHARS]


def choices_in_words(choices: list[Any]) -> str:
    """The first of them, as JSON."""
    shown = [json.dumps(each, ensure_ascii=False)[:MAX_SHOWN_CHARS] for each in choices[:MAX_TOLD]]
    return ", ".join([*shown, "…"] if len(choices) > MAX_TOLD else shown)


def inner(path: str, name: str) -> str:
    """The path of a property."""
    return f"{path}.{name[:MAX_SHOWN_CHARS]}"


def wrong_type_of(path: str, names: list[str]) -> Problem:
    """Empty is allowed where null is; people are told what else."""
    told = [name for name in dict.fromkeys(names) if name != "null"] or names
    if len(told) == 1:
        return problem_at(path, "wrong_type", _WRONG_TYPE[told[0]])
    return problem_at(
        path, "wrong_type", "This must be one of %(choices)s.", choices=", ".join(told)
    )


def unknown_name(path: str, name: str, known: Mapping[str, Any], *, guess: bool) -> Problem:
    """A property that there is none of; with what was probably meant, if there is time to guess."""
    where = inner(path, name)
    shown = name[:MAX_SHOWN_CHARS]
    if not known:
        return problem_at(
            where, "unknown_field", Word("There is no parameter “%(name)s”."), name=shown
        )
    names = [each[:MAX_SHOWN_CHARS] for each in itertools.islice(known, MAX_TOLD)]
    likely = [each for each in names if len(each) <= MAX_GUESSED_CHARS]
    meant = closest(name[:MAX_GUESSED_CHARS], likely) if guess else None
    if meant is not None:
        return problem_at(
            where,
            "unknown_field",
            Word("There is no parameter “%(name)s”; did you mean “%(meant)s”?"),
            name=shown,
            meant=meant,
        )
    return problem_at(
        where,
        "unknown_field",
        Word("There is no parameter “%(name)s”; known are %(known)s."),
        name=shown,
        known=", ".join(names),
    )


def problem_at(path: str, code: str, template: str, **params: Any) -> Problem:
    """A problem with the value at this path."""
    return Problem(field=path, code=code, template=template, params=params)
