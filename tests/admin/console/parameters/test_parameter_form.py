"""Parameters as a form: a field for what can have one, and JSON that stays exactly as it was."""

from __future__ import annotations

import datetime
import enum
import json
import uuid
from typing import Annotated, Any, Literal

import msgspec
import pytest
from multidict import MultiDict

from tickwheel_admin.console.parameters.form import (
    ParameterForm,
    form_as_sent,
    parameter_form,
    switched,
    text_of_form,
)
from tickwheel_admin.console.parameters.schema import MAX_FIELDS, InputKind, parameters_of
from tickwheel_admin.domain.errors import Problem


class Currency(enum.Enum):
    EUR = "eur"
    CNY = "cny"


class Address(msgspec.Struct):
    city: str


class Invoices(msgspec.Struct, forbid_unknown_fields=True):
    month: Annotated[str, msgspec.Meta(max_length=7, description="Which <b>month</b>")]
    most: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100
    rate: float = 0.5
    dry: bool = False
    sure: bool | None = None
    currency: Currency = Currency.EUR
    level: Literal[1, 2, "all"] = "all"
    note: str | None = None
    due: datetime.date | None = None
    at: Annotated[datetime.datetime, msgspec.Meta(tz=True)] | None = None
    key: uuid.UUID | None = None
    tags: list[str] = []
    address: Address | None = None
    anything: Any = None


SCHEMA = msgspec.json.encode(msgspec.json.schema(Invoices)).decode()


def sent_back(form: ParameterForm, **changes: str) -> MultiDict[str]:
    """What a browser sends of the form, some fields changed."""
    sent = MultiDict({"parameters": form.text, "parameters_as": form.edited_as})
    for field in form.fields:
        name = field.parameter.name
        text = changes.pop(name, field.text)
        if field.kind is InputKind.SWITCH:
            sent.add(field.name, "")
            if text == "true":
                sent.add(field.name, "true")
        else:
            sent.add(field.name, text.replace("\n", "\r\n"))
    if form.more is not None:
        sent["param_more"] = changes.pop("more", form.more)
    sent.update(changes)
    return sent


def edited(text: str, *, over: bool = False, schema: str = SCHEMA, **changes: str) -> Any:
    """What the parameters are after these fields were filled in."""
    form = parameter_form(schema, text)
    result, problems = text_of_form(schema, sent_back(form, **changes), over=over)
    assert problems == []
    return json.loads(result)


def test_each_type_has_its_field_and_says_its_rules() -> None:
    fields = {each.parameter.name: each for each in parameter_form(SCHEMA, "{}").fields}
    assert {name: each.kind.value for name, each in fields.items()} == {
        "month": "text", "most": "integer", "rate": "number", "dry": "switch", "sure": "choice",
        "currency": "choice", "level": "choice", "note": "text", "due": "date", "at": "text",
        "key": "text", "tags": "lines", "address": "json", "anything": "json",
    }  # fmt: skip
    assert [name for name, each in fields.items() if each.parameter.required] == ["month"]
    assert fields["month"].parameter.description == "Which <b>month</b>"
    assert fields["month"].rules == ["At most 7 characters."]
    assert fields["most"].rules == ["From 1 to 500."]
    assert fields["most"].placeholder == "100"
    assert fields["at"].rules == ["A date and a time, such as 2026-11-22T09:30:00+01:00."]
    assert fields["currency"].options == [('"cny"', "cny"), ('"eur"', "eur")]
    assert fields["currency"].default_word == "eur"
    assert fields["level"].options == [("1", "1"), ("2", "2"), ('"all"', "all")]
    assert fields["sure"].options == [("true", "yes"), ("false", "no")]
    assert fields["tags"].rules == ["One per line; empty lines do not count."]
    assert fields["address"].rules == ["As JSON."]
    assert parameter_form(SCHEMA, "{}").more is None  # it takes nothing else


def test_an_untouched_form_changes_nothing() -> None:
    texts = [
        "{}",
        '{"month":"2026-11","most":100,"rate":0.10,"dry":true,"level":2,"note":null}',
        # Values of other types than the handler takes keep their JSON.
        '{"month":5,"most":"many","rate":1.50e30,"dry":"no","currency":"usd","due":[],"x":{"y":1}}',
        '{"note":"","anything":null,"tags":["a", "b"],"most":123456789012345678901234567890}',
        '{"note":"two\\nlines","unknown":1}',
    ]
    for text in texts:
        form = parameter_form(SCHEMA, text)
        assert form.as_form
        said, problems = text_of_form(SCHEMA, sent_back(form))
        assert (said.replace(", ", ","), problems) == (text.replace(", ", ","), [])


def test_what_is_typed_becomes_json_of_the_right_type() -> None:
    assert edited(
        "{}", month="2026-11", most=" 7 ", rate="-2.5e3", dry="true", sure="false",
        currency='"cny"', level="1", note="a\nb", due="2026-11-22", tags="a",
        address='{"city": "Bern"}', anything="null",
    ) == {
        "month": "2026-11", "most": 7, "rate": -2500.0, "dry": True, "sure": False,
        "currency": "cny", "level": 1, "note": "a\nb", "due": "2026-11-22", "tags": ["a"],
        "address": {"city": "Bern"}, "anything": None,
    }  # fmt: skip
    # What is emptied is left out, so that the handler's default counts.
    full = '{"month":"2026-11","most":7,"dry":true,"note":"a","level":1}'
    assert edited(full, month="", most="", note="", level="") == {"dry": True}
    assert edited(full, dry="false")["dry"] is False


def test_laid_over_a_job_an_emptied_field_says_so_by_a_value() -> None:
    full = '{"month":"2026-11","most":7,"note":"a","level":1,"tags":["a"]}'
    assert edited(full, over=True, most="", note="", level="", tags="") == {
        "month": "2026-11", "most": 100, "note": None, "level": "all", "tags": [],
    }  # fmt: skip
    schema = msgspec.json.encode(
        {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}
    ).decode()
    assert edited('{"s":"x"}', over=True, schema=schema, s="") == {"s": ""}
    form = parameter_form(schema, '{"n":1}')
    _, problems = text_of_form(schema, sent_back(form, n=""), over=True)
    assert [(each.field, each.code) for each in problems] == [("parameters.n", "required")]


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("most", "1.5"), ("most", "٣"), ("most", "1" * 301), ("rate", "NaN"), ("rate", "1,5"),
        ("currency", '"usd"'), ("currency", "eur"), ("anything", "[1"), ("address", "NaN"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_problem_of_its_field(name: str, typed: str) -> None:
    sent = sent_back(parameter_form(SCHEMA, '{"note":"kept"}'), **{name: typed})
    _, problems = text_of_form(SCHEMA, sent)
    assert [each.field for each in problems] == [f"parameters.{name}"]
    shown = form_as_sent(SCHEMA, sent, problems=problems)
    field = next(each for each in shown.fields if each.parameter.name == name)
    assert (field.text, len(field.problems)) == (typed, 1)
    # It is not taken to the other way of editing before it can be read.
    assert switched(SCHEMA, MultiDict([*sent.items(), ("do", "parameters:json")])).as_form


def test_problems_stand_at_their_fields() -> None:
    def problem(field: str) -> Problem:
        return Problem(field=field, code="c", template="t")

    found = [
        problem(field)
        for field in (
            "parameters", "parameters.month", "parameters.address.city", "parameters.tags[0]",
            "parameters.tags_2", "name",
        )
    ]  # fmt: skip
    form = parameter_form(SCHEMA, "{}", problems=found)
    at = {each.parameter.name: [p.field for p in each.problems] for each in form.fields}
    assert {name: places for name, places in at.items() if places} == {
        "month": [""], "address": ["city"], "tags": ["[0]"],
    }  # fmt: skip
    assert [each.field for each in form.problems] == ["", "tags_2"]


def test_parameters_without_a_field_have_one_of_their_own() -> None:
    schema = msgspec.json.encode(
        {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": {}}
    ).decode()
    assert edited('{"x":1,"n":2}', schema=schema, n="3", more='{"y": 2}') == {"n": 3, "y": 2}
    assert edited('{"x":1}', schema=schema, more="") == {}
    for wrong in ("[]", '{"n": 1}', "{"):
        sent = sent_back(parameter_form(schema, "{}"), more=wrong)
        _, problems = text_of_form(schema, sent)
        assert [each.code for each in problems] == ["parameters.more"]
        assert form_as_sent(schema, sent, problems=problems).more == wrong


def test_one_goes_from_the_form_to_json_and_back() -> None:
    sent = sent_back(parameter_form(SCHEMA, "{}"), month="2026-11", do="parameters:json")
    as_json = switched(SCHEMA, sent)
    assert (as_json.edited_as, json.loads(as_json.text)) == ("json", {"month": "2026-11"})
    back = MultiDict(parameters=as_json.text, parameters_as="json", do="parameters:form")
    assert switched(SCHEMA, back).fields[0].text == "2026-11"
    broken = switched(SCHEMA, MultiDict(parameters="{", parameters_as="json", do="parameters:form"))
    assert (broken.edited_as, broken.text, len(broken.problems)) == ("json", "{", 1)
    # Another handler was chosen: its fields are shown, or JSON when it has none.
    chosen = MultiDict(parameters="{}", parameters_as="", do="handler")
    assert switched(SCHEMA, chosen).as_form
    away = sent_back(parameter_form(SCHEMA, '{"month":"x"}'), do="handler")
    assert (switched(None, away).as_form, switched(None, away).problems) == (False, ())
    # The handler says nothing any more while somebody fills in its form.
    _, problems = text_of_form(None, sent)
    assert [each.code for each in problems] == ["parameters.not_described"]


def test_a_schema_of_any_kind_makes_a_form_or_none() -> None:
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    none: list[Any] = [
        [], True, {}, loop, {"type": "array"}, {"type": "object", "properties": []},
        {"type": "object", "properties": {f"p{n}": {} for n in range(MAX_FIELDS + 1)}},
    ]  # fmt: skip
    for schema in none:
        assert parameters_of(json.dumps(schema)) is None
    assert parameters_of("{") is None
    assert parameters_of("[" * 100_000) is None
    odd: dict[str, Any] = {
        "self": loop["$defs"],
        "ref": {"$ref": "#/$defs/a"},
        "away": {"$ref": "https://elsewhere.example/x"},
        "true": True,
        "types": {"type": ["string", "integer"]},
        "maybe": {"type": ["string", "null"], "default": None},
        "deep": {"enum": [[1], {}]},
        "one": {"const": 5},
        "bad": {"type": 7, "description": 9, "format": [], "minimum": "x", "enum": "abc"},
        "nullable enum": {"enum": ["a", None]},
    }
    schema = {"type": "object", "properties": odd, "required": 5, "$defs": loop["$defs"]}
    taken = parameters_of(json.dumps(schema))
    assert taken is not None
    kinds = {each.name: each.kind for each in taken.parameters}
    assert [name for name, kind in kinds.items() if kind is not InputKind.JSON] == [
        "maybe", "one", "nullable enum",
    ]  # fmt: skip
    nullable = {each.name for each in taken.parameters if each.nullable}
    assert nullable == {"maybe", "nullable enum"}


@pytest.mark.parametrize(
    "values",
    [
        {"note": "one\r\ntwo"},
        {"note": "one\rtwo"},
        {"note": "\nthe first line is empty"},
        {"note": "one\0two"},
        {"due": "not a date"},
        {"due": "2026-02-30"},
    ],
)
def test_what_a_browser_would_change_is_shown_as_json(values: dict[str, str]) -> None:
    form = parameter_form(SCHEMA, json.dumps(values))
    (name,) = values
    (field,) = [each for each in form.fields if each.parameter.name == name]
    assert (field.kind, json.loads(field.text)) == (InputKind.JSON, values[name])
    assert edited(json.dumps(values)) == values


def test_a_number_that_no_float_holds_is_none() -> None:
    sent = sent_back(parameter_form(SCHEMA, "{}"), rate="1e999")
    text, (problem,) = text_of_form(SCHEMA, sent)
    assert (text, problem.field, problem.code) == ("{}", "parameters.rate", "wrong_type")


def test_a_limit_of_any_size_is_said_in_a_few_words() -> None:
    """A limit that no float holds took the page with it."""
    for limit in (10**400, 1e300, -1e-300):
        schema = {"type": "object", "properties": {"n": {"type": "number", "minimum": limit}}}
        (field,) = parameter_form(json.dumps(schema), "{}").fields
        (rule,) = field.rules
        assert len(rule) < 60
