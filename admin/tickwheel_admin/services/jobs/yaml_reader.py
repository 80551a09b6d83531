"""YAML that people paste, read as data and nothing else.

What may be written is what JSON can say: mappings with text keys, lists, text, numbers, true, false
and null. Tags, anchors, aliases and merge keys are refused, for they make objects, or a small text
huge. Dates and times of day stay text, and so do yes, no, on and off. The parser's events are read
one by one, so no text, however deeply nested, costs more than its size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_shared.portable_json import MAX_DEPTH

MAX_YAML_BYTES = 512 * 1024
MAX_VALUES = 50_000  # each costs microseconds while an admin has other things to do
MAX_NESTING = MAX_DEPTH + 3  # parameters of a trigger lie in a mapping, in a list, in the job
MAX_PATH_CHARS = 200  # of places that are remembered; of what lies deeper, the one around it is

# libyaml is far faster; a build of PyYAML without it reads the same language.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Plain scalars that are no text.
WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)  # 007 is a text: its zeros count
NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]|\r(?!\n)")
# Since 0.2.6, libyaml looks ahead for the end of a key only so many levels deep, and says this
# before the first of the levels has reached a reader.
_TOO_DEEP_FOR_LIBYAML = "exceeded maximum nesting depth"
_CLOSES = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a text; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlObject:
    """A mapping that was read, and where its parts stand."""

    value: dict[str, Any]
    places: Mapping[str, Place]  # by path: "triggers[0].expression"

    def place_of(self, path: str) -> Place:
        """Where a path stands, or the nearest thing around it that is written."""
        while path and path not in self.places:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.places.get(path, Place(1, 1))


def read_yaml(text: str | bytes) -> YamlObject:
    """The one mapping that a text holds.

    Raises:
        InvalidInput: of the field "yaml", with `line` and `column` where there is a place.
    """
    return read_yaml_documents(text, most=1)[0]


def read_yaml_documents(text: str | bytes, *, most: int) -> list[YamlObject]:
    """The mappings of a text's documents, at least one and at most so many; raises likewise.

    Lines are counted from the start of the text.
    """
    text = _checked(text)
    try:
        return _Reading(yaml.parse(text, Loader=_Loader), most).read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        if error.problem == _TOO_DEEP_FOR_LIBYAML:
            _refuse_depth(place)
        _refuse_at(
            "yaml.invalid",
            "Line %(line)d, column %(column)d: this is not YAML (%(problem)s).",
            place,
            problem=str(error.problem or error.context)[:200],
        )
    except yaml.YAMLError as error:
        _refuse_at(
            "yaml.invalid",
            "Line %(line)d, column %(column)d: this is not YAML (%(problem)s).",
            Place(1, 1),
            problem=str(error).splitlines()[0][:200],
        )


def _checked(text: str | bytes) -> str:
    """The text, when a parser may see it."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_YAML_BYTES:
        raise InvalidInput.one(
            "yaml",
            "yaml.too_large",
            "This is larger than %(limit)d KiB; a job fits into a few.",
            limit=MAX_YAML_BYTES // 1024,
        )
    try:
        decoded = text.decode() if isinstance(text, bytes) else text.encode().decode()
    except UnicodeError:
        raise InvalidInput.one(
            "yaml", "yaml.not_utf8", "This is not text in UTF-8; save the file in UTF-8 first."
        ) from None
    decoded = decoded.removeprefix("\ufeff")
    if found := _CONTROL.search(decoded):
        before = decoded[: found.start()]
        _refuse_at(
            "yaml.control_character",
            "Line %(line)d, column %(column)d: there is a control character."
            ' Take it out, or write it as an escape within double quotes, such as "\\t".',
            Place(before.count("\n") + 1, found.start() - before.rfind("\n")),
        )
    return decoded


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    value: dict[str, Any] | list[Any]
    path: str | None  # None: too long to be remembered
    key: str | None = None  # read, and waiting for its value
    keys: dict[str, int] = field(default_factory=dict)  # the line of each

    def next_path(self) -> str | None:
        """Where the next value stands. Bounded: a long key must not be copied for each value."""
        key = self.key or ""
        if self.path is None or len(self.path) + len(key) > MAX_PATH_CHARS:
            return None
        if isinstance(self.value, list):
            return f"{self.path}[{len(self.value)}]"
        return f"{self.path}.{key}" if self.path else key

    def take(self, value: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        else:
            self.value[str(self.key)] = value
            self.key = None


class _Reading:
    """Puts together what the parser's events say."""

    def __init__(self, events: Iterator[yaml.Event], most: int) -> None:
        self._events = events
        self._most = most
        self._read: list[YamlObject] = []
        self._places: dict[str, Place] = {}
        self._open: list[_Open] = []
        self._root: Any = None
        self._documents = 0
        self._values = 0

    def read(self) -> list[YamlObject]:
        for event in self._events:
            self._see(event)
        self._end_document()
        return self._read

    def _end_document(self) -> None:
        if not isinstance(self._root, dict):
            _refuse_at(
                "yaml.not_a_mapping",
                "Line %(line)d: this must be a mapping of fields, such as"
                " “name: nightly-invoices”.",
                self._places.get("", Place(1, 1)),
            )
        self._read.append(YamlObject(value=self._root, places=self._places))
        self._root, self._places = None, {}

    def _see(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._end_document()
            if self._documents > self._most == 1:
                _refuse_at(
                    "yaml.several_documents",
                    "Line %(line)d: a second document begins here; give one job at a time.",
                    _place(event),
                )
            if self._documents > self._most:
                _refuse_at(
                    "yaml.too_many_documents",
                    "Line %(line)d: more than %(limit)s jobs at once; split the text here.",
                    _place(event),
                    limit=f"{self._most:,}",
                )
        elif isinstance(event, yaml.AliasEvent):
            _refuse_reference(event)
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            self._see_node(event)
        elif isinstance(event, _CLOSES):
            closed = self._open.pop()
            self._put(closed.value)

    def _see_node(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        place = _place(event)
        self._values += 1
        if self._values > MAX_VALUES:
            _refuse_at(
                "yaml.too_many_values",
                "Line %(line)d: more than %(limit)s keys and values are too many for a job.",
                place,
                limit=f"{MAX_VALUES:,}",
            )
        if event.anchor is not None:
            _refuse_reference(event)
        if event.tag is not None:
            _refuse_at(
                "yaml.tag",
                "Line %(line)d, column %(column)d: tags such as %(tag)s are not allowed."
                " Leave the tag out; quotes make a text of anything.",
                place,
                tag=str(event.tag).replace("tag:yaml.org,2002:", "!!")[:60],
            )
        around = self._open[-1] if self._open else None
        if around is not None and isinstance(around.value, dict) and around.key is None:
            self._see_key(around, event, place)
            return
        path = around.next_path() if around else ""
        if path is not None:
            self._places[path] = place
        if isinstance(event, yaml.ScalarEvent):
            self._put(_value_of(event, place))
            return
        if len(self._open) >= MAX_NESTING:
            _refuse_depth(place)
        value: dict[str, Any] | list[Any] = {}
        if isinstance(event, yaml.SequenceStartEvent):
            value = []
        self._open.append(_Open(value=value, path=path))

    def _see_key(
        self, around: _Open, event: yaml.ScalarEvent | yaml.CollectionStartEvent, place: Place
    ) -> None:
        if not isinstance(event, yaml.ScalarEvent):
            _refuse_at(
                "yaml.key",
                "Line %(line)d, column %(column)d: a key must be text, not a list or a mapping.",
                place,
            )
        key = event.value
        if key == "<<" and event.implicit[0]:
            _refuse_reference(event)
        if key in around.keys:
            _refuse_at(
                "yaml.doubled_key",
                "Line %(line)d, column %(column)d: the key “%(key)s” is already on line %(first)d;"
                " keep one of the two.",
                place,
                key=key[:50],
                first=around.keys[key],
            )
        around.keys[key] = place.line
        around.key = key

    def _put(self, value: Any) -> None:
        if self._open:
            self._open[-1].take(value)
        else:
            self._root = value


def _value_of(event: yaml.ScalarEvent, place: Place) -> Any:
    text: str = event.value
    if not event.implicit[0]:  # in quotes, or a block
        return text
    if text in WORDS:
        return WORDS[text]
    if not NUMBER.fullmatch(text):
        return text
    if not _WHOLE.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else _refuse_number(place)
    try:
        return int(text)
    except ValueError:  # Python's own limit of 4,300 digits
        return _refuse_number(place)


def _refuse_number(place: Place) -> NoReturn:
    _refuse_at(
        "yaml.huge_number",
        "Line %(line)d, column %(column)d: this number is too large; a text belongs in quotes.",
        place,
    )


def _refuse_reference(event: yaml.Event) -> NoReturn:
    _refuse_at(
        "yaml.alias",
        "Line %(line)d, column %(column)d: anchors (&), aliases (*) and merge keys (<<) are not"
        " allowed. Write the value out, or in quotes if it is a text.",
        _place(event),
    )


def _refuse_depth(place: Place) -> NoReturn:
    _refuse_at(
        "yaml.too_deep", "Line %(line)d, column %(column)d: this is nested too deeply.", place
    )


def _refuse_at(code: str, template: str, place: Place, /, **params: Any) -> NoReturn:
    raise InvalidInput.one("yaml", code, template, line=place.line, column=place.column, **params)


def _place(event: yaml.Event) -> Place:
    mark = event.start_mark
    return Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
