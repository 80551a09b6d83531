"""References to secrets in what a job is configured with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tickwheel_admin.domain.jobs.children import parameters_of_child
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.jobs.secret_references import (
    as_text,
    references_of,
    resolve,
    secret_names,
    secrets_of_run,
)
from tickwheel_admin.domain.planning.fires import merged_parameters
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec

VALUES = {"KEY": 'a"b\\c\nd', "HOST": "db.example"}


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def job(parameters: dict[str, Any], *, of_trigger: dict[str, Any] | None = None) -> JobConfig:
    own = None if of_trigger is None else compact(of_trigger)
    triggers = (CronSpec(expression="0 0 3 * * ?", timezone="UTC", parameters=own),)
    return JobConfig(name="a", handler="b", parameters=compact(parameters), triggers=triggers)


def filled(config: JobConfig, given: str | None = None) -> Any:
    names = secrets_of_run(config, given)
    return json.loads(resolve(config, given, {name: VALUES[name] for name in names}))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${secret.KEY}", VALUES["KEY"]),
        ("x${secret.HOST}${secret.HOST}y", "xdb.exampledb.exampley"),
        ("$${secret.KEY}", "${secret.KEY}"),
        ("$$${secret.KEY}", "$${secret.KEY}"),
        ("${secret.KEY", "${secret.KEY"),
        ("${secret.a-b}", "${secret.a-b}"),
        ("${secret.}", "${secret.}"),
        ("${Secret.KEY} {secret.KEY} ${KEY}", "${Secret.KEY} {secret.KEY} ${KEY}"),
    ],
)
def test_a_reference_is_replaced_and_nothing_else(text: str, result: str) -> None:
    assert filled(job({"a": text})) == {"a": result}


def test_a_value_from_elsewhere_is_text() -> None:
    foreign = {
        "a": ["${secret.KEY}", "$${secret.KEY} $$${secret.HOST}", {"${secret.KEY}": "${secret."}],
        "b": [1, None, True, "${secret." + "x" * 200],
    }
    assert references_of(job(as_text(foreign), of_trigger=as_text(foreign))) == []
    assert json.loads(resolve(job(as_text(foreign)), None, {})) == foreign


def test_references_stand_in_nested_texts_but_not_in_names() -> None:
    config = job({"a": [1, {"${secret.KEY}": "${secret.HOST}", "n": 10**30}], "b": None})

    assert secret_names(config) == {"HOST"}
    assert [each.field for each in references_of(config)] == ["parameters.a[1].${secret.KEY}"]
    assert filled(config) == {"a": [1, {"${secret.KEY}": "db.example", "n": 10**30}], "b": None}


def test_what_is_no_name_is_found_as_well() -> None:
    found = references_of(job({"a": "${secret.a-b} ${secret.KEY"}, of_trigger={"b": "${secret.}"}))

    assert [(each.field, each.name) for each in found] == [
        ("parameters.a", None),
        ("parameters.a", None),
        ("triggers[0].parameters.b", None),
    ]


def test_only_what_the_revision_says_itself_is_searched() -> None:
    """Whoever starts a run, or a parent's result, cannot have a secret written where it likes."""
    config = job({"a": "${secret.KEY}", "c": "-"}, of_trigger={"b": ["${secret.HOST}"]})

    asked = merged_parameters(
        config.parameters, compact({"c": "${secret.KEY}", "d": "$${secret.A}"})
    )
    assert filled(config, asked) == {"a": VALUES["KEY"], "c": "${secret.KEY}", "d": "$${secret.A}"}
    result = ' { "c" : "${secret.HOST}", "e": 1e999, "a" : "\\u0024{secret.KEY}" } '
    child = parameters_of_child(config.parameters, result)
    assert secrets_of_run(config, child) == set()
    assert resolve(config, child, {}) == child
    fired = merged_parameters(config.parameters, config.triggers[0].parameters or "")
    assert filled(config, fired) == {"a": VALUES["KEY"], "c": "-", "b": ["db.example"]}
    # The same text elsewhere is not what the revision says.
    moved = merged_parameters(config.parameters, compact({"a": ["${secret.HOST}"]}))
    assert filled(config, moved) == {"a": ["${secret.HOST}"], "c": "-"}


def test_a_run_without_references_is_not_even_read() -> None:
    assert secrets_of_run(job({"a": "${secret.KEY}"}), "no JSON at all") == set()
