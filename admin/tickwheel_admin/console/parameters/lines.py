"""Lists and dictionaries as text: an element, or a name and its value, on each line.

Lines that are empty do not count. What cannot be written so without a change is not shown so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from tickwheel_admin.domain.errors import Problem

TEXT_ONLY = frozenset({"string"})

_list = msgspec.json.Decoder(list[msgspec.Raw])
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LINE = re.compile(r"[^\r\n\0]*")  # what stays on its line in a browser
_PAIR = re.compile(r"([^=:]+)[=:](.*)")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,299})")
_MUST_BE_JSON = '"[{'  # what begins so


class UnreadableLine(Exception):
    """A line that says no element; `problem` has its number."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.template)
        self.problem = problem


def lines_of_list(value: str, takes: frozenset[str]) -> str | None:
    """A JSON list with an element on each line; None: it cannot be shown so.

    Args:
        takes: JSON types of the elements. If it is text alone, a line is the text as it is.
    """
    try:
        shown = [_shown(bytes(each).decode(), takes) for each in _list.decode(value)]
    except msgspec.DecodeError:
        return None
    whole = [each for each in shown if each is not None and each.strip()]
    return "\n".join(whole) if len(whole) == len(shown) else None


def lines_of_object(value: str, takes: frozenset[str]) -> str | None:
    """A JSON object with name=value on each line; None: it cannot be shown so."""
    try:
        pairs = _object.decode(value)
    except msgspec.DecodeError:
        return None
    lines = []
    for name, raw in pairs.items():
        shown = _shown(bytes(raw).decode(), takes)
        line = f"{name}={shown}"
        found = _PAIR.fullmatch(line)
        if shown is None or shown != shown.strip() or found is None or not _LINE.fullmatch(line):
            return None
        if found[1].strip() != name:
            return None
        lines.append(line)
    return "\n".join(lines)


def list_of_lines(text: str, takes: frozenset[str]) -> str:
    """JSON of the list that was typed.

    Raises:
        UnreadableLine: for the first such line.
    """
    return f"[{','.join(_value(line, takes, number) for number, line in _lines(text))}]"


def object_of_lines(text: str, takes: frozenset[str]) -> str:
    """JSON of the object that was typed: the first "=" or ":" of a line ends the name.

    Raises:
        UnreadableLine: for the first such line.
    """
    found: dict[str, str] = {}
    begun: dict[str, int] = {}
    for number, line in _lines(text):
        pair = _PAIR.fullmatch(line)
        name = pair[1].strip() if pair is not None else ""
        if pair is None or not name:
            raise UnreadableLine(
                Problem(
                    field="",
                    code="line.no_name",
                    template="Line %(line)s: write name=value.",
                    params={"line": number},
                )
            )
        if name in found:
            raise UnreadableLine(
                Problem(
                    field="",
                    code="line.doubled",
                    template="Line %(line)s: %(name)s is already in line %(first)s.",
                    params={"line": number, "name": name, "first": begun[name]},
                )
            )
        found[name] = _value(pair[2].strip(), takes, number)
        begun[name] = number
    return "{" + ",".join(f"{_json(name)}:{value}" for name, value in found.items()) + "}"


def line_of_element(text: str, index: int) -> int | None:
    """In which line the element of that index stands."""
    return dict(enumerate(number for number, _line in _lines(text))).get(index)


def names_of_lines(text: str) -> Mapping[str, int]:
    """In which line each name stands."""
    pairs = ((number, _PAIR.fullmatch(line)) for number, line in _lines(text))
    return {pair[1].strip(): number for number, pair in pairs if pair is not None}


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that count, and their numbers from 1."""
    return ((n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip())


def _shown(value: str, takes: frozenset[str]) -> str | None:
    """How a JSON value is written in a line, so that it is read back as the same."""
    decoded = msgspec.json.decode(value)
    if takes == TEXT_ONLY:
        return decoded if isinstance(decoded, str) and _LINE.fullmatch(decoded) else None
    if isinstance(decoded, dict) or (
        isinstance(decoded, list) and any(isinstance(each, dict | list) for each in decoded)
    ):
        return None  # JSON on several lines is easier to read
    same = _json(decoded) if isinstance(decoded, str) else msgspec.json.format(value, indent=-1)
    for text in (decoded, same):
        if isinstance(text, str) and _LINE.fullmatch(text) and text == text.strip():
            try:
                if _value(text, takes, 0) == same:
                    return text
            except UnreadableLine:
                continue
    return None


def _value(text: str, takes: frozenset[str], number: int) -> str:
    """JSON of what a line says."""
    if takes == TEXT_ONLY:
        return _json(text)
    text = text.strip()
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        if "string" in takes and not text.startswith(tuple(_MUST_BE_JSON)):
            return _json(text)
        raise UnreadableLine(
            Problem(
                field="",
                code="json.invalid",
                template="Line %(line)s: this is not JSON.",
                params={"line": number},
            )
        ) from None
    if "string" in takes and not _is_meant(decoded, text, takes):
        return _json(text)
    return msgspec.json.format(text, indent=-1)


def _is_meant(value: object, text: str, takes: frozenset[str]) -> bool:
    """Whether JSON is what it looks like, where text is taken as well: 1.10 may be a version."""
    match value:
        case bool():
            return "boolean" in takes
        case None:
            return "null" in takes
        case int():
            return bool(takes & {"integer", "number"}) and _WHOLE.fullmatch(text) is not None
        case float():
            return "number" in takes and _json(value) == text
        case _:
            return True


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
