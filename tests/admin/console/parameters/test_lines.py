"""Lists and dictionaries as lines of text: read back as the same, or not shown so at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from multidict import MultiDict

from tests.admin.console.parameters.test_parameter_form import edited
from tickwheel_admin.console.parameters.form import form_as_sent, parameter_form, text_of_form
from tickwheel_admin.console.parameters.schema import InputKind, parameters_of
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.parameter_schema import check_parameters

TEXT: dict[str, Any] = {"type": "string"}
SCALAR: dict[str, Any] = {
    "anyOf": [TEXT, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}]
}
PROPERTIES: dict[str, Any] = {
    "argv": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 1000},
    "status": {"type": "array", "items": {"anyOf": [{"type": "integer"}, TEXT]}},
    "numbers": {"type": "array", "items": {"type": "integer"}},
    "statements": {"type": "array", "items": {"type": "string", "format": "multiline"}},
    "headers": {"type": "object", "additionalProperties": TEXT},
    "values": {
        "type": "object",
        "additionalProperties": {"anyOf": [*SCALAR["anyOf"], {"type": "array", "items": SCALAR}]},
    },
    "any": {"type": "object"},
    "deep": {"type": "object", "additionalProperties": {"type": "object"}},
    "named": {"type": "object", "properties": {"a": TEXT}},
    "pair": {"type": "array", "prefixItems": [TEXT, TEXT]},
    "items": {"type": "array"},
    "levels": {"type": "array", "items": {"enum": ["low", "high"]}},
}
SCHEMA = json.dumps({"type": "object", "properties": PROPERTIES, "additionalProperties": False})


def shown(name: str, value: Any) -> tuple[InputKind, str]:
    form = parameter_form(SCHEMA, json.dumps({name: value}))
    (field,) = [each for each in form.fields if each.parameter.name == name]
    return field.kind, field.text


def test_each_shape_has_its_way_of_being_written() -> None:
    taken = parameters_of(SCHEMA)
    assert taken is not None
    assert {each.name: each.kind.value for each in taken.parameters} == {
        "argv": "lines", "status": "lines", "numbers": "lines", "statements": "texts",
        "headers": "pairs", "values": "pairs", "any": "pairs", "deep": "json", "named": "json",
        "pair": "json", "items": "json", "levels": "lines",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("argv", ["/bin/x", " a  b ", "a=b", "5", "[x]"], "/bin/x\n a  b \na=b\n5\n[x]"),
        ("status", [200, "2xx", "404", "200-299"], '200\n2xx\n"404"\n200-299'),
        ("numbers", [1, -2, 10**30], f"1\n-2\n{10**30}"),
        ("headers", {"Accept": "a: b=c", "X": "", "Y": '"5"'}, 'Accept=a: b=c\nX=\nY="5"'),
        (
            "values",
            {"n": 5, "t": "5", "v": "1.10", "d": 2.5, "b": True, "w": "true", "l": [1, "a"],
             "month": "2026-03", "two": "a\nb", "none": "", "odd": "[x", "sp": " x"},
            ('n=5\nt="5"\nv=1.10\nd=2.5\nb=true\nw="true"\nl=[1,"a"]\nmonth=2026-03\n'
            'two="a\\nb"\nnone=\nodd="[x"\nsp=" x"'),
        ),
        ("any", {"data.state": "ok", "gone": None}, "data.state=ok\ngone=null"),
    ],
)  # fmt: skip
def test_what_is_shown_in_lines_is_read_back_as_the_same(name: str, value: Any, text: str) -> None:
    kind, found = shown(name, value)
    assert (kind, found) == (parameters_kind(name), text)
    # Typed into an empty form it says the same.
    assert edited("{}", schema=SCHEMA, **{name: f"\n{text}\n\n"})[name] == value


def parameters_kind(name: str) -> InputKind:
    taken = parameters_of(SCHEMA)
    assert taken is not None
    return next(each.kind for each in taken.parameters if each.name == name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("argv", ["a", ""]), ("argv", ["a", "  "]), ("argv", ["two\nlines"]), ("argv", [5]),
        ("argv", "no list"), ("argv", ["a\rb"]), ("status", [{"a": 1}]), ("headers", {"a": " b"}),
        ("headers", {"a:b": "c"}), ("headers", {"a=b": "c"}), ("headers", {" a": "c"}),
        ("headers", {"": "c"}), ("headers", {"a": 5}), ("headers", {"a": "b\nc"}),
        ("values", {"a": {"b": 1}}), ("any", {"a": [[1]]}), ("statements", ["a", ""]),
        ("statements", ["a\r\nb"]), ("statements", [5]),
    ],
)  # fmt: skip
def test_what_lines_would_change_is_shown_as_json(name: str, value: Any) -> None:
    kind, text = shown(name, value)
    assert (kind, json.loads(text)) == (InputKind.JSON, value)
    assert edited(json.dumps({name: value}), schema=SCHEMA) == {name: value}


def test_names_end_at_a_colon_as_well() -> None:
    typed = "Authorization: Bearer a=b\r\n X-Count :  5 "
    assert edited("{}", schema=SCHEMA, headers=typed) == {
        "headers": {"Authorization": "Bearer a=b", "X-Count": "5"}
    }


@pytest.mark.parametrize(
    ("name", "typed", "said"),
    [
        ("headers", "A=1\n\nnothing", "Line 3: write name=value."),
        ("headers", "=1", "Line 1: write name=value."),
        ("headers", "A=1\n\nB=2\nA: 3", "Line 4: A is already in line 1."),
        ("values", "a=1\nb=[1", "Line 2: this is not JSON."),
        ("numbers", "1\ntwo", "Line 2: this is not JSON."),
    ],
)
def test_a_line_that_cannot_be_read_is_named(name: str, typed: str, said: str) -> None:
    sent = MultiDict({"parameters": "{}", "parameters_as": "form", f"param.{name}": typed})
    text, (problem,) = text_of_form(SCHEMA, sent)
    assert (text, problem.field) == ("{}", f"parameters.{name}")
    assert problem.template % problem.params == said


def test_what_the_schema_refuses_is_said_with_its_line() -> None:
    typed = {"levels": "low\n\nmiddle", "status": "200\n\n\n3.5x", "values": "a=1\n\nb=null"}
    sent = MultiDict({"parameters": "{}", "parameters_as": "form"})
    sent.update({f"param.{name}": text for name, text in typed.items()})
    sent.add("param.statements", "")
    text, problems = text_of_form(SCHEMA, sent)
    assert problems == []
    form = form_as_sent(SCHEMA, sent, problems=refused(text.replace('"null"', "null")))
    places = {
        each.parameter.name: [found.field for found in each.placed_problems]
        for each in form.fields
        if each.problems
    }
    assert places == {"levels": ["Line 3"], "values": ["Line 3"]}


def refused(parameters: str) -> list[Any]:
    with pytest.raises(InvalidInput) as caught:
        check_parameters(SCHEMA, parameters)
    return list(caught.value.problems)


def test_several_texts_have_a_box_each() -> None:
    form = parameter_form(SCHEMA, json.dumps({"statements": ["SELECT 1;\nSELECT 2", "x"]}))
    field = next(each for each in form.fields if each.kind is InputKind.TEXTS)
    assert field.texts == ["SELECT 1;\nSELECT 2", "x"]
    sent = MultiDict({"parameters": form.text, "parameters_as": "form"})
    for typed in ("SELECT 1;\r\nSELECT 2", "  \r\n", "y", ""):
        sent.add("param.statements", typed)
    text, problems = text_of_form(SCHEMA, sent)
    assert (json.loads(text), problems) == ({"statements": ["SELECT 1;\nSELECT 2", "y"]}, [])
    sent.popall("param.statements")
    sent.add("param.statements", "")
    assert json.loads(text_of_form(SCHEMA, sent)[0]) == {}
    assert json.loads(text_of_form(SCHEMA, sent, over=True)[0]) == {"statements": []}
