"""Parameters as a form with a field for each, and back into the JSON that they are.

The form carries the JSON that it was made of. A field that nobody touched leaves its value exactly
as it is there, so what a field cannot show is never changed by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from multidict import MultiMapping

from tickwheel_admin.console.frame.units import pretty
from tickwheel_admin.console.parameters.field import (
    ParameterField,
    field_as_sent,
    field_of,
    lines_of,
    value_of,
)
from tickwheel_admin.console.parameters.first_fields import FIRST_FIELDS
from tickwheel_admin.console.parameters.ready_made_texts import translated
from tickwheel_admin.console.parameters.schema import HandlerParameters, json_of, parameters_of
from tickwheel_admin.domain.errors import Problem

MORE = "param_more"  # an object: parameters that the schema does not name
FORM, JSON = "form", "json"  # how they are edited

_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])

Values = dict[str, str]  # JSON of each parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterForm:
    """The parameters of a job or a run, as fields or as JSON."""

    taken: HandlerParameters | None  # None: the handler does not say what it takes
    as_form: bool
    text: str  # JSON: what the fields were made of, or what is edited itself
    fields: tuple[ParameterField, ...] = ()
    more: str | None = None  # JSON of parameters without a field; None: there can be none
    problems: tuple[Problem, ...] = ()  # of no field, named from the parameters on
    first: Sequence[str] = ()  # names of those that are shown first; (): all in their order

    @property
    def edited_as(self) -> str:
        """FORM, JSON, or "": JSON, because there is no form for them."""
        if self.as_form:
            return FORM
        return "" if self.taken is None else JSON

    @property
    def shown(self) -> list[ParameterField]:
        """The fields that are not folded: the first ones, and those that somebody has filled in."""
        if not self.first:
            return list(self.fields)
        by_name = {each.parameter.name: each for each in self.fields}
        first = [by_name[name] for name in self.first if name in by_name]
        first += [e for e in self.fields if e.parameter.required and e not in first]
        return [*first, *(each for each in self._others if each.problems or each.is_set)]

    @property
    def folded(self) -> list[ParameterField]:
        """Those that are seldom needed, with nothing in them."""
        return [each for each in self._others if not (each.problems or each.is_set)]

    @property
    def _others(self) -> list[ParameterField]:
        if not self.first:
            return []
        return [
            each
            for each in self.fields
            if each.parameter.name not in self.first and not each.parameter.required
        ]

    def of_handler(self, handler: str) -> ParameterForm:
        """The same with the fields first that this handler is mostly used with."""
        first = FIRST_FIELDS.get(handler, ())
        known = {each.parameter.name for each in self.fields}
        return replace(self, first=first) if known.issuperset(first) else self

    @property
    def description(self) -> str:
        """What the handler says of itself."""
        return translated(self.taken.description) if self.taken is not None else ""


def parameter_form(
    schema: str | None,
    text: str,
    *,
    edited_as: str = "",
    sent: MultiMapping[str] | None = None,
    problems: Sequence[Problem] = (),
) -> ParameterForm:
    """The form for parameters.

    Args:
        schema: what the handler takes; None or one that cannot be read: JSON is edited.
        text: the parameters as JSON, or whatever somebody typed for it.
        edited_as: FORM, JSON, or "": as a form where that is possible.
        sent: the fields as somebody filled them in, with `edited_as` FORM.
        problems: those on "parameters" and below are shown.
    """
    taken = parameters_of(schema)
    values = _values_of(text)
    own = [
        replace(problem, field=problem.field.removeprefix("parameters").removeprefix("."))
        for problem in problems
        if re.match(r"parameters($|[.\[])", problem.field)
    ]
    if taken is None or values is None or edited_as == JSON:
        return ParameterForm(taken=taken, as_form=False, text=text, problems=tuple(own))
    fields = []
    for index, parameter in enumerate(taken.parameters):
        field = field_of(parameter, values.get(parameter.name), index)
        if sent is not None:
            field = field_as_sent(field, sent)
        mine = [each for each in own if _is_at(each, parameter.name)]
        own = [each for each in own if each not in mine]
        fields.append(replace(field, problems=tuple(_below(each, parameter.name) for each in mine)))
    return ParameterForm(
        taken=taken,
        as_form=True,
        text=text,
        fields=tuple(fields),
        more=_more(taken, values, sent),
        problems=tuple(own),
    )


def text_of_form(
    schema: str | None, sent: MultiMapping[str], *, over: bool = False
) -> tuple[str, list[Problem]]:
    """The JSON that somebody's fields say, and what of them cannot be read.

    Args:
        over: the result is laid over what the form was made of, so a field that was emptied must
            say so by a value.
    """
    text = sent.get("parameters", "").strip() or "{}"
    if sent.get("parameters_as") != FORM:
        return text, []
    taken, values = parameters_of(schema), _values_of(text)
    if taken is None or values is None:
        return text, [
            Problem(
                field="parameters",
                code="parameters.not_described",
                template="The handler does not say any more what it takes: look at them as JSON.",
            )
        ]
    problems: list[Problem] = []
    said = values.copy()
    for index, parameter in enumerate(taken.parameters):
        before = field_of(parameter, values.get(parameter.name), index)
        after = field_as_sent(before, sent)
        if (after.kind, after.text) == (before.kind, before.text):
            continue
        value = value_of(after, problems, over=over and parameter.name in values)
        if value is None:
            said.pop(parameter.name, None)
        else:
            said[parameter.name] = value
    _lay_more(said, taken, values, sent, problems)
    return _object_text(said), problems


def switched(schema: str | None, sent: MultiMapping[str], *, over: bool = False) -> ParameterForm:
    """The form after "do" was pressed: "parameters:json", "parameters:form", or another one."""
    text, problems = text_of_form(schema, sent, over=over)
    match sent.get("do", ""):
        case "parameters:json" if not problems:
            return parameter_form(schema, pretty(text), edited_as=JSON)
        case "parameters:json":
            pass
        case "parameters:form" if _values_of(text) is not None:
            return parameter_form(schema, text, edited_as=FORM)
        case "parameters:form":
            problems.append(
                Problem(field="parameters", code="json.invalid", template="This is not JSON.")
            )
        case _:
            problems = []
    return form_as_sent(schema, sent, problems=problems)


def form_as_sent(
    schema: str | None, sent: MultiMapping[str], *, problems: Sequence[Problem] = ()
) -> ParameterForm:
    """The form as somebody filled it in, with what is wrong."""
    edited_as = sent.get("parameters_as", "")
    return parameter_form(
        schema,
        sent.get("parameters", ""),
        edited_as=edited_as,
        sent=sent if edited_as == FORM else None,
        problems=problems,
    )


def is_about_parameters(problem: Problem) -> bool:
    """Whether the form of parameters shows this problem."""
    return re.match(r"parameters($|[.\[])", problem.field) is not None


def _values_of(text: str) -> Values | None:
    """The value of each parameter as it is written; None: this is no JSON object."""
    try:
        whole = text.strip() or "{}"
        msgspec.json.decode(whole)  # the other one does not look into the values
        found = _raw_object.decode(whole)
    except (msgspec.DecodeError, RecursionError):
        return None
    return {name: bytes(value).decode().strip() for name, value in found.items()}


def _object_text(values: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{json_of(name)}:{value}" for name, value in values.items()) + "}"


def _without_field(taken: HandlerParameters, values: Mapping[str, str]) -> dict[str, str]:
    named = {each.name for each in taken.parameters}
    return {name: value for name, value in values.items() if name not in named}


def _more(
    taken: HandlerParameters, values: Mapping[str, str], sent: MultiMapping[str] | None
) -> str | None:
    rest = _without_field(taken, values)
    if not rest and not taken.takes_more:
        return None
    if sent is not None and MORE in sent:
        return lines_of(sent[MORE])
    return pretty(_object_text(rest)) if rest else ""


def _lay_more(
    said: Values,
    taken: HandlerParameters,
    values: Mapping[str, str],
    sent: MultiMapping[str],
    problems: list[Problem],
) -> None:
    """Put what was typed in the field for further parameters in the place of what was there."""
    if MORE not in sent or lines_of(sent[MORE]) == _more(taken, values, None):
        return
    more = _values_of(sent[MORE])
    named = {each.name for each in taken.parameters}
    if more is None:
        problems.append(
            Problem(
                field="parameters",
                code="parameters.more",
                template="This must be a JSON object, such as {}.",
            )
        )
        return
    if named & more.keys():
        problems.append(
            Problem(
                field="parameters",
                code="parameters.more",
                template="Parameters that have a field of their own do not belong here.",
            )
        )
        return
    for name in _without_field(taken, values):
        said.pop(name)
    said.update(more)


def _is_at(problem: Problem, name: str) -> bool:
    rest = problem.field.removeprefix(name)
    return problem.field.startswith(name) and (not rest or rest[0] in ".[")


def _below(problem: Problem, name: str) -> Problem:
    return replace(problem, field=problem.field.removeprefix(name).removeprefix("."))
