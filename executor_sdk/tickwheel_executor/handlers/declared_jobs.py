"""Jobs declared in code, which hello proposes to the admin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Protocol

import msgspec

from tickwheel_executor.errors import HandlerError
from tickwheel_shared.protocol import MAX_DECLARED_BYTES, MAX_DECLARED_JOBS

from .job_fields import (
    ALARM_FIELDS,
    JOB_FIELDS,
    PARTS_OF_ALARMS,
    TRIGGER_DETAILS,
    TRIGGER_FIELDS,
    WORKFLOW_FIELDS,
)

_WHEN = ("cron", "every", "at")  # one trigger, in short form
_OF_ONE_TRIGGER = (*TRIGGER_DETAILS, "dialect", "anchor_at")


class DeclaredWorkflow(Protocol):
    """A workflow that code declares (`tickwheel_executor.workflows`)."""

    name: str

    @property
    def sub_workflows(self) -> frozenset[str]:
        """Names of jobs and workflows of this executor that its steps run."""

    def problems(self) -> list[str]:
        """What is wrong with it."""

    def as_raw(self) -> dict[str, Any]:
        """What YAML has as `workflow`."""


class JobDeclarations:
    """The jobs that an executor declares, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[str, Any]] = {}
        self._workflows: dict[str, DeclaredWorkflow] = {}  # what some of them are

    def add(self, name: str, handler: str, fields: Mapping[str, Any]) -> None:
        """Declare a job.

        Raises:
            HandlerError: the name is taken, a field unknown, or a value cannot be written as JSON.
        """
        where = f"job {name!r} of handler {handler!r}"
        self._add({"name": name, "handler": handler}, fields, JOB_FIELDS, where)

    def add_workflow(self, workflow: DeclaredWorkflow, fields: Mapping[str, Any]) -> None:
        """Declare a job that is a workflow, to which steps will still be added.

        Raises:
            HandlerError: as `add` does.
        """
        name = workflow.name
        self._add({"name": name}, fields, WORKFLOW_FIELDS, f"workflow {name!r}")
        self._workflows[name] = workflow

    def _add(
        self, job: dict[str, Any], fields: Mapping[str, Any], known: Sequence[str], where: str
    ) -> None:
        if job["name"] in self._by_name:
            raise HandlerError(f"{where}: there is a job of this name already; give it another one")
        if len(self._by_name) >= MAX_DECLARED_JOBS:
            raise HandlerError(f"{where}: an executor declares at most {MAX_DECLARED_JOBS} jobs")
        _refuse_unknown(fields, known, where)
        triggers = _triggers(fields, where)
        for key, value in fields.items():
            if key == "alarms":
                job[key] = [_alarm(alarm, where) for alarm in _alarms(value, where)]
            elif key not in (*_WHEN, *_OF_ONE_TRIGGER, "triggers"):
                job[key] = json_value(key, value, where)
        if triggers:
            job["triggers"] = triggers
        self._by_name[job["name"]] = job

    def get(self, name: str) -> dict[str, Any] | None:
        """The fields of a job; those of a workflow are without its steps. None: there is none."""
        return self._by_name.get(name)

    def workflow(self, name: str) -> DeclaredWorkflow | None:
        """The workflow of that name; None if there is none."""
        return self._workflows.get(name)

    def check(self, handlers: Iterable[str]) -> list[msgspec.Raw]:
        """JSON of every job; called when all handlers are registered.

        A workflow comes after the jobs and workflows that its steps run, so that an admin that
        takes one after the other knows these.

        Raises:
            HandlerError: with every problem: a job names an unknown handler, a workflow is wrong,
                or the jobs are too large for a hello.
        """
        known = list(handlers)
        problems = [*self._unknown_handlers(known)]
        for name, workflow in self._workflows.items():
            problems += [f"workflow {name!r}: {told}" for told in workflow.problems()]
        if problems:
            raise HandlerError("\n".join(problems))
        encoded = [msgspec.Raw(msgspec.json.encode(job)) for job in self]
        size = sum(len(bytes(each)) for each in encoded)
        if size > MAX_DECLARED_BYTES:
            raise HandlerError(
                f"the declared jobs are {size:,} bytes of JSON; the limit is {MAX_DECLARED_BYTES:,}"
            )
        return encoded

    def _unknown_handlers(self, known: list[str]) -> Iterator[str]:
        for name, job in self._by_name.items():
            if name not in self._workflows and job["handler"] not in known:
                close = get_close_matches(job["handler"], known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                yield (
                    f"job {name!r} names the handler {job['handler']!r}, which this executor does "
                    f"not have{hint}"
                )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from (job for name, job in self._by_name.items() if name not in self._workflows)
        done: set[str] = set()
        for name in self._workflows:
            for each in self._with_inner(name, done):
                yield self._by_name[each] | {"workflow": self._workflows[each].as_raw()}

    def _with_inner(self, name: str, done: set[str]) -> Iterator[str]:
        """A workflow after those that its steps run, which are not there yet."""
        if name not in self._workflows or name in done:
            return
        done.add(name)
        for inner in sorted(self._workflows[name].sub_workflows):
            yield from self._with_inner(inner, done)
        yield name


def _triggers(fields: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    short = [name for name in _WHEN if name in fields]
    details = [name for name in _OF_ONE_TRIGGER if name in fields]
    if "triggers" in fields:
        if short or details:
            raise HandlerError(
                f"{where}: {(short + details)[0]} belongs to one trigger, and there are triggers: "
                "put it into one of these"
            )
        return [_full(trigger, where) for trigger in _sequence(fields["triggers"], where)]
    if len(short) > 1:
        raise HandlerError(
            f"{where}: {' and '.join(short)} are several triggers: write them as triggers=[…]"
        )
    if not short:
        if details:
            raise HandlerError(
                f"{where}: {details[0]} belongs to a trigger: say when with cron, every or at"
            )
        return []
    trigger = _short(short[0], fields[short[0]])
    trigger |= {name: fields[name] for name in details}
    return [{key: json_value(key, value, where) for key, value in trigger.items()}]


def _short(name: str, value: Any) -> dict[str, Any]:
    if name == "every":
        return {"kind": "fixed_rate", "every_seconds": value}
    if name == "at":
        return {"kind": "once", "at": value}
    trigger = {"kind": "cron", "expression": value}
    parts = value.split() if isinstance(value, str) else []
    # Only Quartz has a seventh field or needs a “?”; otherwise it could also be Spring's.
    if len(parts) == 7 or (len(parts) == 6 and "?" in parts):
        trigger["dialect"] = "quartz"
    return trigger


def _full(trigger: object, where: str) -> dict[str, Any]:
    if not isinstance(trigger, Mapping):
        raise HandlerError(f"{where}: a trigger is a dict, not {trigger!r}")
    _refuse_unknown(trigger, TRIGGER_FIELDS, f"{where}, trigger")
    return {key: json_value(key, value, where) for key, value in trigger.items()}


def _alarms(alarms: object, where: str) -> Sequence[object]:
    if not isinstance(alarms, Sequence) or isinstance(alarms, str):
        raise HandlerError(f"{where}: alarms is a list of dicts, not {alarms!r}")
    return alarms


def _alarm(alarm: object, where: str) -> dict[str, Any]:
    if not isinstance(alarm, Mapping):
        raise HandlerError(f"{where}: an alarm is a dict, not {alarm!r}")
    where = f"{where}, alarm"
    _refuse_unknown(alarm, ALARM_FIELDS, where)
    if "kind" not in alarm:
        raise HandlerError(f"{where}: say its kind, such as kind='failed'")
    found = {}
    for key, value in alarm.items():
        known = PARTS_OF_ALARMS.get(key)
        if known is not None and isinstance(value, Mapping):
            _refuse_unknown(value, known, f"{where}, {key}")
            found[key] = {name: json_value(name, each, where) for name, each in value.items()}
        else:
            found[key] = json_value(key, value, where)
    return found


def _sequence(triggers: object, where: str) -> Sequence[object]:
    if not isinstance(triggers, Sequence) or isinstance(triggers, str):
        raise HandlerError(f"{where}: triggers is a list of dicts, not {triggers!r}")
    return triggers


def _refuse_unknown(fields: Iterable[str], known: Sequence[str], where: str) -> None:
    for name in fields:
        if name in known:
            continue
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
        raise HandlerError(f"{where} has no field {name!r}; {hint}")


def json_value(name: str, value: object, where: str) -> Any:
    """The value as in JSON: durations are seconds, instants ISO 8601."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise HandlerError(f"{where}: {name} cannot be written as JSON: {error}") from error
