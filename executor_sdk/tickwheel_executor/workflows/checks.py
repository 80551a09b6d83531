"""What this program knows to be wrong with a workflow, before anything is sent.

The admin checks the rest when it takes the workflow: jobs, people, calendars, other executors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol

import msgspec

from tickwheel_executor.errors import HandlerError
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_shared.protocol import MAX_PARAMETERS_BYTES
from tickwheel_shared.workflows.conditions import BadCondition, compile_condition
from tickwheel_shared.workflows.parts import MAX_KEY_CHARS, MAX_STEPS
from tickwheel_shared.workflows.paths import Path, in_words, step_of
from tickwheel_shared.workflows.values import BadReference, references_in

from .references import as_json
from .step import ApprovalBody, HandlerBody, Step, WaitBody

_KEY = re.compile(r"[a-z0-9_][a-z0-9_-]*", re.ASCII)
MAX_WAIT_SECONDS = 2_592_000  # 30 days
_OF_STEP = ("result", "state")
_OF_RUN = ("id", "scheduled_at")


class StepGraph(Protocol):
    """What is looked at of a workflow."""

    @property
    def steps(self) -> Sequence[Step]: ...

    @property
    def output(self) -> str | None: ...

    @property
    def index_of(self) -> Mapping[str, int]: ...

    def handler_name(self, body: HandlerBody) -> str: ...


def problems_of(workflow: StepGraph, handlers: Handlers) -> list[str]:
    """Every problem, one sentence each."""
    if not workflow.steps:
        return ["it has no steps: add one with step(), job(), approval() …"]
    found: list[str] = []
    if len(workflow.steps) > MAX_STEPS:
        found.append(f"it has {len(workflow.steps):,} steps; at most {MAX_STEPS:,} are allowed")
    for step in workflow.steps:
        found += [f"step {step.key!r}: {told}" for told in _of_step(step, workflow, handlers)]
    before = _ancestors(workflow)
    if before is None:
        circle = " → ".join(_circle(workflow))
        found.append(f"these steps would wait for each other for ever: {circle}")
        return found
    for step in workflow.steps:
        found += [
            f"step {step.key!r}: {told}"
            for told in _of_references(step, workflow, before[step.key])
        ]
    output = None if workflow.output is None else workflow.steps[workflow.index_of[workflow.output]]
    if output is not None and isinstance(output.body, ApprovalBody | WaitBody):
        found.append(f"step {output.key!r}: it returns nothing, and cannot be the output")
    return found


def _of_step(step: Step, workflow: StepGraph, handlers: Handlers) -> Iterator[str]:
    if len(step.key) > MAX_KEY_CHARS or not _KEY.fullmatch(step.key):
        yield (
            f"a key has 1 to {MAX_KEY_CHARS} of a-z, 0-9, underscores and hyphens, and does not "
            "begin with a hyphen"
        )
    seen: set[str] = set()
    for need in step.needs:
        if need.step not in workflow.index_of:
            yield f"it needs {need.step!r}, {_no_step(need.step, workflow)}"
        elif need.step in seen:
            yield f"it needs {need.step!r} twice; say once how it must have ended"
        seen.add(need.step)
    if step.when is not None:
        try:
            compile_condition(step.when)
        except BadCondition as error:
            yield f"when: {error}, in {step.when!r}"
    if len(step.parameters.encode()) > MAX_PARAMETERS_BYTES:
        yield f"its parameters have more than {MAX_PARAMETERS_BYTES // 1024} KiB"
    if isinstance(step.body, WaitBody):
        if len(step.body.wait) != 1:
            yield "a wait has either a time (seconds, minutes, hours, days) or until"
        elif not 0 < step.body.wait.get("seconds", 1) <= MAX_WAIT_SECONDS:
            yield f"it waits for {step.body.wait['seconds']} s; wanted more than 0, to 30 days"
    if isinstance(step.body, HandlerBody):
        yield from _of_handler(step, step.body, workflow, handlers)


def _of_handler(
    step: Step, body: HandlerBody, workflow: StepGraph, handlers: Handlers
) -> Iterator[str]:
    if step.executor is not None:
        if not isinstance(body.handler, str):
            yield f"name the handler of {step.executor!r} by a text; this program does not have it"
        return
    try:
        name = workflow.handler_name(body)
        handler = handlers.get(name)
        if handler is None:
            yield handlers.explain_unknown(name)
            return
        given: Mapping[str, Any] = msgspec.json.decode(step.parameters)
        later = {key for key, value in given.items() if "${" in as_json(value)}
        yield from handler.signature.problems(given, later=later)
    except HandlerError as error:
        yield str(error)


def _ancestors(workflow: StepGraph) -> dict[str, frozenset[str]] | None:
    """By step, those that have ended when it starts; None: some wait for each other.

    Needs that name no step count as none: that is told elsewhere.
    """
    before: dict[str, frozenset[str]] = {}
    left = list(workflow.steps)
    while left:
        still: list[Step] = []
        for step in left:
            needs = [need.step for need in step.needs if need.step in workflow.index_of]
            if all(key in before for key in needs):
                before[step.key] = frozenset(needs).union(*(before[key] for key in needs))
            else:
                still.append(step)
        if len(still) == len(left):
            return None
        left = still
    return before


def _circle(workflow: StepGraph) -> list[str]:
    """A way from a step back to itself, along what each of them needs; there is one."""
    needs = {
        step.key: [need.step for need in step.needs if need.step in workflow.index_of]
        for step in workflow.steps
    }
    ends = [key for key, names in needs.items() if not names]
    while ends:  # what waits for nothing is on no circle
        for key in ends:
            del needs[key]
        needs = {key: [each for each in names if each in needs] for key, names in needs.items()}
        ends = [key for key, names in needs.items() if not names]
    way = [next(iter(needs))]
    while way.count(way[-1]) == 1:
        way.append(needs[way[-1]][0])
    return way[way.index(way[-1]) :]


def _of_references(step: Step, workflow: StepGraph, before: frozenset[str]) -> Iterator[str]:
    try:
        for field, path in _references(step):
            yield from _of_path(step, field, path, workflow, before)
    except BadReference as error:
        yield (
            f"“{error.text}” is no reference; one begins with parameters, steps, run, item or "
            "item_index, and $${ is the text itself"
        )


def _of_path(
    step: Step, field: str, path: Path, workflow: StepGraph, before: frozenset[str]
) -> Iterator[str]:
    words, other = in_words(path), step_of(path)
    if path[0] == "steps":
        if other is None or len(path) < 3 or path[2] not in _OF_STEP:
            yield f"{field}: {words} must go on: a step has a result and a state"
        elif other not in workflow.index_of:
            yield f"{field}: {words} names {other!r}, {_no_step(other, workflow)}"
        elif other not in before:
            yield f"{field}: {words} is not there when it starts: add {other!r} to its needs"
    elif path[0] in ("item", "item_index"):
        if step.items is None or field != "parameters":
            yield f"{field}: {words} is there in the parameters of a step with for_each only"
    elif path[0] == "run" and (len(path) < 2 or path[1] not in _OF_RUN):
        yield f"{field}: {words} is no value of a run; there are run.id and run.scheduled_at"


def _references(step: Step) -> Iterator[tuple[str, Path]]:
    texts = {"parameters": step.parameters}
    if step.items is not None:
        texts["for_each"] = step.items
    if isinstance(step.body, WaitBody) and "until" in step.body.wait:
        texts["until"] = as_json(step.body.wait["until"])
    for field, text in texts.items():
        yield from ((field, path) for path in _sorted(references_in(text)))
    if step.when is not None:
        try:
            yield from (("when", path) for path in _sorted(compile_condition(step.when).paths))
        except BadCondition:
            return  # told already


def _sorted(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=in_words)


def _no_step(key: str, workflow: StepGraph) -> str:
    close = get_close_matches(key, workflow.index_of, n=1)
    return "which is no step" + (f"; did you mean {close[0]!r}?" if close else " of this workflow")
