"""One parameter in a form: how its value is shown, and what was typed means as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

import msgspec
from multidict import MultiMapping

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.units import pretty
from tickwheel_admin.console.parameters.lines import (
    UnreadableLine,
    line_of_element,
    lines_of_list,
    lines_of_object,
    list_of_lines,
    names_of_lines,
    object_of_lines,
)
from tickwheel_admin.console.parameters.ready_made_texts import translated
from tickwheel_admin.console.parameters.schema import InputKind, Parameter, json_of, rules_in_words
from tickwheel_admin.domain.errors import Problem

FIELD = "param."
FIELD_AS_JSON = "param_json."  # of a value that its own field cannot show

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,299})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,299})(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?")
# What browsers send back as it was: they lose or change an empty first line, other line ends, NUL.
_TEXT = re.compile(r"(?!\n)[^\r\0]*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INDEX = re.compile(r"\[([0-9]{1,9})\]")
_OF_LINES = frozenset({InputKind.LINES, InputKind.PAIRS})
_AS_TYPED = _OF_LINES | {InputKind.TEXT}  # spaces at their ends count, or the numbers of lines


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterField:
    """One parameter in the form."""

    parameter: Parameter
    index: int
    kind: InputKind  # JSON where the value is none of the parameter's own kind
    text: str  # as it is shown: "true" for a switch that is on, JSON for a choice
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """Its name in the form."""
        as_json = self.kind is InputKind.JSON and self.parameter.kind is not InputKind.JSON
        return f"{FIELD_AS_JSON if as_json else FIELD}{self.parameter.name}"

    @property
    def id(self) -> str:
        """Its id in the page: names of parameters may be anything."""
        return f"f-param-{self.index}"

    @property
    def is_long(self) -> bool:
        """Whether its text needs several lines."""
        return (
            self.kind in _OF_LINES
            or self.kind is InputKind.TEXTS
            or "\n" in self.text
            or self.parameter.format == "multiline"
        )

    @property
    def is_set(self) -> bool:
        """Whether it says something that nobody would have to say."""
        if self.kind is InputKind.SWITCH:
            return self.text != (self.default or "false")
        return bool(self.text)

    @property
    def texts(self) -> list[str]:
        """What stands in each of its text areas."""
        return list(msgspec.json.decode(self.text)) if self.text else []

    @property
    def placeholder(self) -> str:
        """What the handler takes when nothing is given; "" when it does not say."""
        if self.default is None or self.kind is InputKind.TEXTS:
            return ""
        return _shown(replace(self.parameter, kind=self.kind), self.default) or ""

    @property
    def default(self) -> str | None:
        """JSON of what the handler takes when nothing is given."""
        return None if self.parameter.default in (None, "null") else self.parameter.default

    @property
    def options(self) -> list[tuple[str, str]]:
        """Values and words of a choice."""
        return [(each, _word(each)) for each in self.parameter.options]

    @property
    def default_word(self) -> str:
        return "" if self.default is None else _word(self.default)

    @property
    def placed_problems(self) -> list[Problem]:
        """What is wrong, with the line of what it is about instead of its index."""
        return [replace(each, field=self._place(each.field)) for each in self.problems]

    def _place(self, path: str) -> str:
        if self.kind not in (InputKind.LINES, InputKind.PAIRS, InputKind.TEXTS):
            return path
        if found := _INDEX.match(path):
            index = int(found[1])
            if self.kind is InputKind.TEXTS:
                return _("No. %(n)s") % {"n": index + 1}
            line = line_of_element(self.text, index)
        else:
            of_names = names_of_lines(self.text) if self.kind is InputKind.PAIRS else {}
            names = [each for each in of_names if path == each or path.startswith(f"{each}[")]
            line = of_names[max(names, key=len)] if names else None
        return path if line is None else _("Line %(n)s") % {"n": line}

    @property
    def description(self) -> str:
        """What the handler says of it."""
        return translated(self.parameter.description)

    @property
    def rules(self) -> list[str]:
        """What a value must be like, in words."""
        return rules_in_words(self.parameter)


def field_of(parameter: Parameter, value: str | None, index: int) -> ParameterField:
    """The field for a JSON value; None: there is none."""
    if parameter.kind is InputKind.SWITCH and value is None:
        value = parameter.default
    if value is None or (value == "null" and parameter.nullable):
        return ParameterField(parameter=parameter, index=index, kind=parameter.kind, text="")
    shown = _shown(parameter, value, options=parameter.options)
    if shown is None:
        return ParameterField(
            parameter=parameter, index=index, kind=InputKind.JSON, text=pretty(value)
        )
    return ParameterField(parameter=parameter, index=index, kind=parameter.kind, text=shown)


def _shown(parameter: Parameter, value: str, *, options: Sequence[str] | None = None) -> str | None:
    """A JSON value as a field of that kind shows it; None: it cannot."""
    kind = parameter.kind
    match kind:
        case InputKind.TEXT | InputKind.DATE:
            text = str(msgspec.json.decode(value)) if value.startswith('"') else None
            fits = _is_date if kind is InputKind.DATE else _TEXT.fullmatch
            return text if text is not None and fits(text) else None
        case InputKind.INTEGER:
            return value if _INTEGER.fullmatch(value) else None
        case InputKind.NUMBER:
            return value if _NUMBER.fullmatch(value) else None
        case InputKind.SWITCH:
            return value if value in ("true", "false") else None
        case InputKind.CHOICE:
            same = json_of(msgspec.json.decode(value))
            return same if options is None or same in options else None
        case InputKind.LINES:
            return lines_of_list(value, parameter.takes)
        case InputKind.PAIRS:
            return lines_of_object(value, parameter.takes)
        case InputKind.TEXTS:
            return _texts_shown(value)
        case InputKind.JSON:
            return pretty(value)


def _texts_shown(value: str) -> str | None:
    """JSON of texts that can stand in text areas; "" if there is none."""
    try:
        texts = msgspec.json.decode(value, type=list[str])
    except msgspec.DecodeError:
        return None
    if not all(_TEXT.fullmatch(each) and each.strip() for each in texts):
        return None
    return json_of(texts) if texts else ""


def _is_date(text: str) -> bool:
    """Whether a field for dates shows it: browsers drop whatever is none."""
    try:
        return bool(_DATE.fullmatch(text) and date.fromisoformat(text))
    except ValueError:
        return False


def field_as_sent(field: ParameterField, sent: MultiMapping[str]) -> ParameterField:
    """The field as somebody filled it in; the same when it was not in their form."""
    name = field.parameter.name
    if FIELD_AS_JSON + name in sent and field.parameter.kind is not InputKind.JSON:
        return replace(field, kind=InputKind.JSON, text=lines_of(sent[FIELD_AS_JSON + name]))
    typed = sent.getall(FIELD + name, [])
    if not typed:
        return field
    if field.parameter.kind is InputKind.SWITCH:
        text = "true" if "true" in typed else "false"
    elif field.parameter.kind is InputKind.TEXTS:
        texts = [lines_of(each) for each in typed if each.strip()]
        text = json_of(texts) if texts else ""
    else:
        text = lines_of(typed[0])
    return replace(field, kind=field.parameter.kind, text=text)


def value_of(field: ParameterField, problems: list[Problem], *, over: bool) -> str | None:
    """JSON of what was typed; None: nothing, so the handler's default counts.

    Args:
        problems: what cannot be read is added.
        over: the value is laid over an earlier one, which would stay without one.
    """
    text = field.text if field.kind in _AS_TYPED else field.text.strip()
    is_empty = not text.strip() if field.kind in _OF_LINES else not text
    if is_empty and not over:
        return None
    problem = None
    if is_empty:
        value = _cleared(field)
        if value is None:
            problem = Problem(field="", code="required", template="This is needed.")
    else:
        try:
            value = _json_of_text(field, text)
            if value is None:
                problem = _unreadable(field.kind)
        except UnreadableLine as unreadable:
            value, problem = None, unreadable.problem
    if problem is not None:
        problems.append(replace(problem, field=f"parameters.{field.parameter.name}"))
    return value


def _cleared(field: ParameterField) -> str | None:
    """What says that there is nothing; None: nothing can say so."""
    if field.parameter.default is not None:
        return field.parameter.default
    if field.parameter.nullable:
        return "null"
    if field.kind in (InputKind.LINES, InputKind.TEXTS):
        return "[]"
    if field.kind is InputKind.PAIRS:
        return "{}"
    return '""' if field.kind is InputKind.TEXT else None


def _json_of_text(field: ParameterField, text: str) -> str | None:
    match field.kind:
        case InputKind.TEXT | InputKind.DATE:
            return json_of(text)
        case InputKind.INTEGER:
            return text if _INTEGER.fullmatch(text) else None
        case InputKind.NUMBER:
            is_finite = _NUMBER.fullmatch(text) and math.isfinite(float(text))
            return text if is_finite else None
        case InputKind.SWITCH:
            return text
        case InputKind.CHOICE:
            return text if text in field.parameter.options else None
        case InputKind.LINES:
            return list_of_lines(text, field.parameter.takes)
        case InputKind.PAIRS:
            return object_of_lines(text, field.parameter.takes)
        case InputKind.TEXTS:
            return text
        case InputKind.JSON:
            try:
                msgspec.json.decode(text)
                return msgspec.json.format(text, indent=-1)
            except (msgspec.DecodeError, RecursionError):
                return None


def _unreadable(kind: InputKind) -> Problem:
    match kind:
        case InputKind.INTEGER:
            return Problem(field="", code="wrong_type", template="This must be a whole number.")
        case InputKind.NUMBER:
            return Problem(field="", code="wrong_type", template="This must be a number.")
        case InputKind.CHOICE:
            return Problem(field="", code="wrong_type", template="Choose one of the list.")
        case _:
            return Problem(field="", code="json.invalid", template="This is not JSON.")


def lines_of(text: str) -> str:
    """Text of a field with several lines, which browsers send with other line ends."""
    return text.replace("\r\n", "\n")


def _word(value: str) -> str:
    """A JSON value as people read it."""
    match value:
        case "true":
            return _("yes")
        case "false":
            return _("no")
        case _:
            return str(msgspec.json.decode(value)) if value.startswith('"') else value
