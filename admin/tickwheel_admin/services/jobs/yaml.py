"""A job as YAML: the fields of the API, for files, reviews and copying from one place to another.

Fields that say nothing (null, or an empty text, list or mapping) are left out; the rest is written
out, so that a text means the same when a default changes. What a job's text does not hold is its
executor: the same file makes the job anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.job import JOB_FIELDS
from tickwheel_admin.domain.input.job_alarms import without_nothing
from tickwheel_admin.services.jobs.yaml_reader import YamlObject, read_yaml
from tickwheel_admin.services.jobs.yaml_writer import write_yaml

_ALWAYS = ("name", "handler")  # so that a job that is not finished shows where it begins


def to_yaml(raw: Mapping[str, Any]) -> str:
    """A job in the API's form (`domain.job_input.job_to_raw`) as text."""
    return write_yaml(shown_fields(raw))


def shown_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job that its text has, in its order."""
    shown: dict[str, Any] = {}
    for name in JOB_FIELDS:
        value = raw.get(name)
        if name == "triggers" and value:
            value = [_without_nulls(trigger) for trigger in value]
        if name == "alarms" and value:
            value = [without_nothing(a) if isinstance(a, Mapping) else a for a in value]
        if name == "script" and value:
            value = _script(value)
        if name in _ALWAYS or not _says_nothing(value):
            shown[name] = "" if value is None else _plain(value)
    return shown


def from_yaml(text: str | bytes) -> dict[str, Any]:
    """What `domain.job_input.parse_job` reads, which checks what the fields say.

    Raises:
        InvalidInput: no YAML, or more than data: of the field "yaml"; or fields that no job has,
            with what was probably meant. Each with its line.
    """
    read = read_yaml(text)
    fields = Fields(read.value, "", [])
    fields.only(JOB_FIELDS)
    raise_if_any(placed(fields.problems, read))
    return read.value


def placed(problems: Sequence[Problem], text: YamlObject) -> list[Problem]:
    """The problems with the line of what they are about, in the order of the text."""
    found = []
    for problem in problems:
        if "line" in problem.params:
            found.append(problem)
            continue
        place = text.place_of(problem.field)
        params = {**problem.params, "line": place.line, "column": place.column}
        found.append(replace(problem, params=params))
    return sorted(found, key=lambda problem: int(problem.params["line"]))


def _plain(value: Any) -> Any:
    """A whole number as such: "0" and not "0.0", which means the same in every field of a job."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _script(script: Any) -> Any:
    """Without the hash of a source that is there: whoever edits the source cannot compute it."""
    if not isinstance(script, Mapping):
        return script
    hidden = () if script.get("source") is None else ("sha256",)
    return {n: value for n, value in script.items() if n not in hidden and not _says_nothing(value)}


def _without_nulls(trigger: Any) -> Any:
    if not isinstance(trigger, Mapping):
        return trigger
    return {name: value for name, value in trigger.items() if not _says_nothing(value)}


def _says_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)
