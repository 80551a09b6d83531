"""What `${…}` becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tickwheel_shared.workflows.paths import in_words, read_path
from tickwheel_shared.workflows.values import (
    BadReference,
    BadValue,
    filled,
    items_of,
    references_in,
)

SCOPE: dict[str, Any] = {
    "parameters": {"month": "2026-10", "n": 3, "none": None, "big": 2**70, "ä ö": "x"},
    "steps": {
        "extract": {
            "state": "succeeded",
            "result": {"files": ["a.csv", "b.csv"], "ratio": 0.5, "ok": True, "1": "one"},
        },
        "close-books": {"state": "succeeded", "result": "done"},
    },
    "run": {"id": 7, "scheduled_at": "2026-11-01T00:00:00Z"},
    "item": {"name": "a.csv"},
    "item_index": 0,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${parameters.month}", "2026-10"),
        ("${parameters.n}", 3),
        ("${parameters.none}", None),
        ("${parameters.big}", 2**70),
        ('${parameters["ä ö"]}', "x"),
        ("${steps.extract.result.files}", ["a.csv", "b.csv"]),
        ("${steps.extract.result.files[1]}", "b.csv"),
        ("${steps.extract.result.1}", "one"),
        ("${steps.extract.result.ok}", True),
        ("${steps.close-books.result}", "done"),
        ("${run.id}", 7),
        ("${item}", {"name": "a.csv"}),
        ("in/${item.name}.${item_index}", "in/a.csv.0"),
        ("${parameters.n} of ${steps.extract.result.files}", '3 of ["a.csv","b.csv"]'),
        ("${parameters.ok-not-read", None),
        ("$${parameters.month}", "${parameters.month}"),
        ("costs $5 or {5}", "costs $5 or {5}"),
        ("${secret.password}", "${secret.password}"),
        ("a ${secret.password} ${run.id}", "a ${secret.password} 7"),
        ("$${secret.password}", "$${secret.password}"),
        ("", ""),
    ],
)
def test_a_whole_reference_keeps_its_type(text: str, value: Any) -> None:
    if text.endswith("not-read"):
        with pytest.raises(BadReference):
            filled(json.dumps({"x": text}), SCOPE)
        return
    assert json.loads(filled(json.dumps({"x": [text]}), SCOPE)) == {"x": [value]}


def test_what_is_put_in_is_not_read_again() -> None:
    scope = {"parameters": {"a": "${parameters.b}", "b": 1}}
    assert json.loads(filled('{"x":"${parameters.a}"}', scope)) == {"x": "${parameters.b}"}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "steps.extract.result.rows",
            "“steps.extract.result” is there",
        ),
        ("steps.load.result", "“steps.load.result”"),
        ("steps.extract.result.files[2]", "“steps.extract.result.files[2]”"),
        ("parameters.month.year", "“parameters.month.year”"),
        ("item.size", "“item.size”"),
    ],
)
def test_a_missing_value_is_named(path: str, says: str) -> None:
    with pytest.raises(BadValue, match="value") as caught:
        filled(json.dumps({"x": f"${{{path}}}"}), SCOPE)
    assert caught.value.code == "value.missing"
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["${}", "${x}", "${steps", "${steps.a b}", "${ run.id }", "${..}"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(BadReference):
        references_in(json.dumps({"deep": [{"x": text}]}))


def test_references_are_found_anywhere_but_in_keys() -> None:
    text = json.dumps({"${bad": ["${steps.a.result}", {"x": "${run.id}-${item}"}]})
    assert {in_words(path) for path in references_in(text)} == {"steps.a.result", "run.id", "item"}


@pytest.mark.parametrize("value", ["x" * 70_000, float("inf")])
def test_values_have_limits(value: Any) -> None:
    with pytest.raises(BadValue):
        filled('{"x":"${item}"}', {"item": value})


def test_items() -> None:
    assert items_of('"${steps.extract.result.files}"', SCOPE, most=2) == ["a.csv", "b.csv"]
    assert items_of('[1,"${run.id}"]', SCOPE, most=2) == [1, 7]
    for text, code in [
        ('"${run.id}"', "for_each.no_list"),
        ("[1,2,3]", "for_each.too_many"),
        ('"${steps.gone.result}"', "value.missing"),
    ]:
        with pytest.raises(BadValue) as caught:
            items_of(text, SCOPE, most=2)
        assert caught.value.code == code


@pytest.mark.parametrize("text", ["steps.a[0].b", 'run["a b"][3]', "item", "steps.close-books.x_1"])
def test_paths_are_written_as_they_are_read(text: str) -> None:
    read = read_path(text)
    assert read is not None
    assert (in_words(read[0]), read[1]) == (text, len(text))
