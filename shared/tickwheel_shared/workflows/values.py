"""Values that a step takes from its workflow: `${…}` in its parameters.

A text that is one reference and nothing else becomes the value itself, with its JSON type; within
a longer text a value is written into it. `$${` is the text `${`. `${secret.NAME}` is left as it
is: what is secret is put in when the run is sent to its node (`domain.jobs.secret_references`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tickwheel_shared.portable_json import MAX_DEPTH, is_within
from tickwheel_shared.protocol import MAX_PARAMETERS_BYTES
from tickwheel_shared.workflows.paths import ROOTS, NoValue, Path, Scope, read_path, value_at

_SECRET = "secret."  # noqa: S105 - what the name of every secret follows
_SHOWN = 60


class BadReference(ValueError):
    """A text holds a `${` that begins no reference; `text` is what stands there."""

    def __init__(self, text: str) -> None:
        self.text = text[:_SHOWN]
        super().__init__(f"“{self.text}” is no reference")


class BadValue(ValueError):
    """A step's values cannot be put in: its run fails with this code and text."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class _Text:
    """A text with references: constant texts and paths in their order."""

    parts: tuple[str | Path, ...]


def references_in(text: str) -> frozenset[Path]:
    """The paths of every reference in the texts of some JSON.

    Raises:
        BadReference: a text holds a `${` that begins no reference.
    """
    if "${" not in text:
        return frozenset()
    return frozenset(
        part
        for each in _texts(json.loads(text))
        for part in _parsed(each).parts
        if not isinstance(part, str)
    )


def names_values(text: str) -> bool:
    """Whether some JSON may have references; without them `filled` needs no scope."""
    return "${" in text


def filled(text: str, scope: Scope) -> str:
    """Some JSON with its references replaced by what they lead to, as compact JSON.

    Args:
        text: JSON whose references are right: those of a workflow that was saved.

    Raises:
        BadValue: value.missing with the name; value.too_large for more than 64 KiB,
            value.too_deep; value.invalid for what JSON cannot hold.
    """
    if not names_values(text):
        return text
    value = _put_in(text, scope)
    if not is_within(value, MAX_DEPTH):
        raise too_deep()
    try:
        written = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise BadValue("value.invalid", "A value holds a number beyond ±1.8e308.") from error
    if len(written.encode("utf-8", "replace")) > MAX_PARAMETERS_BYTES:
        raise BadValue(
            "value.too_large",
            f"With its values this is larger than {MAX_PARAMETERS_BYTES // 1024} KiB;"
            " pass the address of the data instead.",
        )
    return written


def items_of(text: str, scope: Scope, *, most: int) -> list[Any]:
    """The items of a `for_each`.

    Args:
        text: `ForEach.items`.

    Raises:
        BadValue: value.missing; value.too_deep; for_each.no_list; for_each.too_many.
    """
    value = _put_in(text, scope)
    if not isinstance(value, list):
        raise BadValue(
            "for_each.no_list", f"The items must be a list; this is {json.dumps(value)[:_SHOWN]}."
        )
    if len(value) > most:
        raise BadValue(
            "for_each.too_many", f"These are {len(value):,} items; at most {most:,} are allowed."
        )
    return value


def missing(error: NoValue) -> BadValue:
    """What a step's run says that asks for a value that is not there."""
    where = f" “{error.found}” is there, and does not hold it." if error.found else ""
    return BadValue("value.missing", f"There is no value “{error.name}”.{where}")


def too_deep() -> BadValue:
    """What a step's run says whose values are nested too deeply."""
    return BadValue("value.too_deep", f"A value is nested more than {MAX_DEPTH} deep.")


def _put_in(text: str, scope: Scope) -> Any:
    try:
        return _mapped(json.loads(text), lambda each: _fill(each, scope))
    except NoValue as error:
        raise missing(error) from error
    except RecursionError as error:  # of a run from before such results were refused
        raise too_deep() from error


def _fill(text: str, scope: Scope) -> Any:
    parts = _parsed(text).parts
    if len(parts) == 1 and not isinstance(parts[0], str):
        return value_at(scope, parts[0])
    return "".join(
        part if isinstance(part, str) else _in_text(value_at(scope, part)) for part in parts
    )


def _in_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=10_000)
def _parsed(text: str) -> _Text:
    parts: list[str | Path] = []
    plain, at = "", 0
    while (found := text.find("${", at)) >= 0:
        if found > at and text[found - 1] == "$":
            escaped = text.startswith(_SECRET, found + 2)  # a rule of secrets: left to them
            plain += text[at:found] + "${" if escaped else text[at : found - 1] + "${"
            at = found + 2
            continue
        plain += text[at:found]
        if text.startswith(_SECRET, found + 2):
            plain += "${"
            at = found + 2
            continue
        read = read_path(text, found + 2)
        if read is None or not text.startswith("}", read[1]) or read[0][0] not in ROOTS:
            raise BadReference(text[found:])
        if plain:
            parts.append(plain)
        parts.append(read[0])
        plain, at = "", read[1] + 1
    plain += text[at:]
    if plain or not parts:
        parts.append(plain)
    return _Text(tuple(parts))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _mapped(value: Any, change: Callable[[str], Any]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [_mapped(each, change) for each in value]
    return value
