"""A workflow as a program declares it: steps are added to it, and it is sent with the jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal, Unpack

from tickwheel_executor.errors import HandlerError
from tickwheel_executor.handlers.declared_jobs import json_value
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.handlers.job_fields import Instant, Seconds
from tickwheel_shared.workflows.parts import Need

from .checks import problems_of
from .for_each import for_each_of
from .raw import raw_of
from .references import Reference, as_json
from .step import (
    ApprovalBody,
    Body,
    HandlerBody,
    JobBody,
    NamedWorkflow,
    ScriptBody,
    Step,
    WaitBody,
)
from .step_fields import (
    OWN_RUN_FIELDS,
    RULES,
    RUN_FIELDS,
    STEP_FIELDS,
    OwnRunFields,
    RunFields,
    StepFields,
)


class Workflow:
    """A graph of steps. What is wrong with it is told, all at once, when the executor starts.

    Made by `Executor.workflow`. Its steps may name what is known when it runs:

        wf.parameters["day"], wf.run_id, wf.scheduled_at     of the workflow's run
        extract.result["files"], extract.state               of a step before
        wf.item["name"], wf.item_index                       in the parameters of a `for_each`
    """

    def __init__(self, name: str, handlers: Handlers) -> None:
        self.name = name
        self.steps: list[Step] = []
        self.output: str | None = None  # key of the step whose result is that of the workflow
        self.faults: list[str] = []  # found while steps were added
        self.handlers = handlers  # of its executor
        self.parameters = Reference(("parameters",))
        self.item = Reference(("item",))
        self.item_index = Reference(("item_index",))
        self.run_id = Reference(("run", "id"))
        self.scheduled_at = Reference(("run", "scheduled_at"))

    # --- steps ------------------------------------------------------------------------------------

    def step(
        self, key: str, handler: Callable[..., Any] | str, **fields: Unpack[OwnRunFields]
    ) -> Step:
        """Run a handler: one of this executor, or with `executor="…"` that of another by its name.

        Args:
            key: unique in the workflow; 1 to 64 of a-z, 0-9, hyphen, underscore.
            handler: a function that `@executor.handler` has registered, or the name of one.
            fields: `parameters`, `needs`, `when`, `for_each`, `retries`, `timeout_seconds`, ….
        """
        return self._add(key, HandlerBody(handler=handler), fields, OWN_RUN_FIELDS)

    def job(self, key: str, job: str, **fields: Unpack[RunFields]) -> Step:
        """Run an existing job by its name, with its routing, retries and timeout."""
        return self._add(key, JobBody(kind="job", job=job), fields, RUN_FIELDS)

    def workflow(self, key: str, workflow: str | Workflow, **fields: Unpack[RunFields]) -> Step:
        """Run another workflow: one of this program, or one by its name."""
        return self._add(key, JobBody(kind="workflow", job=workflow), fields, RUN_FIELDS)

    def script(
        self,
        key: str,
        language: str,
        source: str,
        *,
        signature: str = "",
        **fields: Unpack[OwnRunFields],
    ) -> Step:
        """Run a script (docs/scripts.md); the people who may write scripts have to accept it."""
        script = {"language": language, "source": source}
        if signature:
            script["signature"] = signature
        return self._add(key, ScriptBody(script=script), fields, OWN_RUN_FIELDS)

    def approval(
        self,
        key: str,
        *,
        people: Sequence[str] = (),
        roles: Sequence[Literal["viewer", "operator", "developer", "admin"]] = (),
        deadline_seconds: Seconds | None = None,
        silence: Literal["approve", "decline"] | None = None,
        message: str = "",
        **fields: Unpack[StepFields],
    ) -> Step:
        """Wait until somebody approves; declined, the step has failed.

        Args:
            people: names of users; with neither these nor roles, whoever may operate the workflow.
            deadline_seconds: how long they have: 1 s to 30 days; None: for ever.
            silence: what it means that nobody answered by then; "decline" when omitted.
            message: what they are asked, at most 2,000 characters.
        """
        asked = {
            "people": list(people),
            "roles": list(roles),
            "deadline_seconds": deadline_seconds,
            "silence": silence,
            "message": message,
        }
        given = {name: value for name, value in asked.items() if value}
        where = f"step {key!r}"
        return self._add(key, ApprovalBody(approval=self._plain(given, where)), fields, STEP_FIELDS)

    def wait(
        self,
        key: str,
        *,
        seconds: float | None = None,
        minutes: float | None = None,
        hours: float | None = None,
        days: float | None = None,
        until: Instant | Reference | None = None,
        **fields: Unpack[StepFields],
    ) -> Step:
        """Wait for a time of at most 30 days, or until an instant with its offset from UTC."""
        wait: dict[str, Any] = {}
        if any(each is not None for each in (seconds, minutes, hours, days)):
            total = timedelta(
                seconds=seconds or 0, minutes=minutes or 0, hours=hours or 0, days=days or 0
            )
            wait["seconds"] = json_value("seconds", total, "")
        if until is not None:
            if isinstance(until, datetime) and until.utcoffset() is None:
                self.faults.append(f"step {key!r}: until has no offset from UTC: give it a tzinfo")
            wait["until"] = until.isoformat() if isinstance(until, datetime) else str(until)
        return self._add(key, WaitBody(wait=wait), fields, STEP_FIELDS)

    # --- what becomes of it -----------------------------------------------------------------------

    @cached_property
    def index_of(self) -> Mapping[str, int]:
        """The index of each step by its key, once all of them are there."""
        return {step.key: index for index, step in enumerate(self.steps)}

    @property
    def sub_workflows(self) -> frozenset[str]:
        """Names of the workflows of this executor that its steps run."""
        return frozenset(
            name_of(step.body.job)
            for step in self.steps
            if isinstance(step.body, JobBody) and step.executor is None
        )

    def handler_name(self, body: HandlerBody) -> str:
        """The name by which a step's handler is known.

        Raises:
            HandlerError: it is not registered, or under several names.
        """
        if isinstance(body.handler, str):
            return body.handler
        return self.handlers.name_of(body.handler)

    def problems(self) -> list[str]:
        """Everything that is wrong with it, as far as this program knows."""
        return [*self.faults, *problems_of(self, self.handlers)]

    def as_raw(self) -> dict[str, Any]:
        """What YAML has as `workflow`."""
        raw: dict[str, Any] = {} if self.output is None else {"output": self.output}
        return raw | {"steps": [raw_of(step, self.handler_name) for step in self.steps]}

    def _add(self, key: str, body: Body, fields: Mapping[str, Any], known: Sequence[str]) -> Step:
        where = f"step {key!r}"
        if any(step.key == key for step in self.steps):
            self.faults.append(f"{where} is there twice; give one of them another key")
        for name in fields:
            if name not in known:
                close = get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
                self.faults.append(f"{where} has no field {name!r}; {hint}")
        step = Step(
            key=key,
            body=body,
            needs=self._needs(fields.get("needs", ()), where),
            when=fields.get("when"),
            parameters=self._json(fields.get("parameters") or {}, f"{where}: parameters"),
            pause_before=fields.get("pause_before", False),
            description=fields.get("description", ""),
            executor=fields.get("executor"),
            rules=self._plain({n: v for n, v in fields.items() if n in RULES}, where),
        )
        try:
            step = replace(step, **for_each_of(fields))
        except ValueError as error:
            self.faults.append(f"{where}: {error}")
        if fields.get("output", False):
            if self.output is not None:
                self.faults.append(f"{where}: {self.output!r} is the output already; there is one")
            self.output = key
        self.steps.append(step)
        self.__dict__.pop("index_of", None)
        return step

    def _needs(self, needs: Any, where: str) -> tuple[Need, ...]:
        found: list[Need] = []
        for each in [needs] if isinstance(needs, str | Step | Need) else needs:
            if isinstance(each, Step):
                found.append(each.succeeded)
            elif isinstance(each, str):
                found.append(Need(step=each))
            elif isinstance(each, Need):
                found.append(each)
            else:
                self.faults.append(f"{where}: needs are steps or extract.failed, not {each!r}")
        return tuple(found)

    def _plain(self, fields: Mapping[str, Any], where: str) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for name, value in fields.items():
            try:
                plain[name] = json_value(name, value, where)
            except HandlerError as error:
                self.faults.append(str(error))
        return plain

    def _json(self, value: object, where: str) -> str:
        try:
            return as_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            self.faults.append(f"{where} cannot be written as JSON: {error}")
            return "{}"


def name_of(job: str | NamedWorkflow) -> str:
    """The name of a job or of a workflow."""
    return job if isinstance(job, str) else job.name
