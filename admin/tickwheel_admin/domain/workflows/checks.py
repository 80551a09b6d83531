"""Whether the steps of a graph fit together; every rule that is broken is told, with the way out.

Sets of steps are bits of whole numbers, so that a graph of a thousand steps takes milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import closest
from tickwheel_admin.domain.workflows.graph import (
    Approval,
    Need,
    NeedOutcome,
    Step,
    Wait,
    Workflow,
)
from tickwheel_shared.workflows.conditions import StepCondition, compile_condition
from tickwheel_shared.workflows.paths import Path, in_words, step_of
from tickwheel_shared.workflows.values import BadValue, references_in

MAX_PATH = 12  # steps of a circle that are named
STEP_FIELDS = ("result", "state")
RUN_FIELDS = ("id", "scheduled_at")
_OUTCOMES = {
    NeedOutcome.SUCCEEDED: "s",
    NeedOutcome.FAILED: "f",
    NeedOutcome.SKIPPED: "k",
    NeedOutcome.ENDED: "sfk",
}


@dataclass(frozen=True, slots=True)
class _Reference:
    """A path that a step names, and the field in which it stands."""

    field: str
    path: Path


def problems_of(workflow: Workflow, *, path: str = "workflow") -> list[Problem]:
    """What is wrong with a graph whose fields are right and whose keys differ.

    Args:
        path: of the workflow, which the fields of problems begin with.
    """
    checks = _Checks(workflow, path)
    checks.needs()
    if not checks.problems:
        checks.circles()
    if not checks.problems:
        checks.reachable()
        checks.references()
    checks.output()
    return checks.problems


class _Checks:
    def __init__(self, workflow: Workflow, path: str) -> None:
        self.problems: list[Problem] = []
        self._workflow = workflow
        self._index = workflow.index_of
        self._path = path

    def refuse(self, field: str, code: str, template: str, /, **params: Any) -> None:
        """Note a broken rule of a field."""
        where = f"{self._path}.{field}"
        self.problems.append(Problem(field=where, code=code, template=template, params=params))

    def needs(self) -> None:
        """Every step that is named is there, and none is named twice."""
        for index, step in enumerate(self._workflow.steps):
            seen: set[str] = set()
            for place, need in enumerate(step.needs):
                field = f"steps[{index}].needs[{place}]"
                if need.step not in self._index:
                    self._unknown(field, need.step)
                elif need.step in seen:
                    self.refuse(
                        field,
                        "duplicate",
                        "The step “%(step)s” is named before; say once how it must have ended.",
                        step=need.step,
                    )
                seen.add(need.step)

    def output(self) -> None:
        """The step that gives the result is there, and has one."""
        output = self._workflow.output
        if output is None:
            return
        if output not in self._index:
            self._unknown("output", output)
        elif isinstance(self._workflow.step(output).body, Approval | Wait):
            self.refuse(
                "output",
                "workflow.output",
                "The step “%(step)s” has no result: it runs nothing. Name another one.",
                step=output,
            )

    def circles(self) -> None:
        """No step waits for itself. Names the shortest way of one circle."""
        order = _in_order(self._workflow)
        if len(order) == len(self._workflow.steps):
            return
        circle = _circle(self._workflow, set(self._index) - set(order))
        shown = circle if len(circle) <= MAX_PATH else [*circle[: MAX_PATH - 1], "…", circle[-1]]
        step = self._workflow.step(circle[0])
        place = [need.step for need in step.needs].index(circle[1])
        self.refuse(
            f"steps[{self._index[circle[0]]}].needs[{place}]",
            "workflow.circle",
            "These steps would wait for each other for ever: %(path)s. Take one of the needs out.",
            path=" → ".join(shown),
        )

    def reachable(self) -> None:
        """No step needs what cannot be, such as that another one succeeded and failed."""
        never: dict[str, dict[str, int]] = {}  # by step, the outcomes that cannot be if it runs
        for key in _in_order(self._workflow):
            step, index = self._workflow.step(key), self._index[key]
            ruled_out = dict.fromkeys("sfk", 0)
            for need in step.needs:
                _require(ruled_out, need, self._index[need.step], never)
            impossible = ruled_out["s"] & ruled_out["f"] & ruled_out["k"]
            never[key] = ruled_out
            if impossible:
                other = self._workflow.steps[impossible.bit_length() - 1].key
                self.refuse(
                    f"steps[{index}].needs",
                    "workflow.unreachable",
                    "The step “%(step)s” can never run: what it needs asks that “%(other)s” ends"
                    " in two ways at once. Change the needs of one of the steps between them.",
                    step=key,
                    other=other,
                )
                never[key] = dict.fromkeys("sfk", 0)
            self._check_when(step, index)

    def _check_when(self, step: Step, index: int) -> None:
        """A condition that reads no value is always the same."""
        if step.when is None or (condition := compile_condition(step.when)).paths:
            return
        if _constant(condition) is not True:
            self.refuse(
                f"steps[{index}].when",
                "workflow.never",
                "This condition never holds, so the step “%(step)s” would never run. Compare with"
                " a parameter or a result, or take the step out.",
                step=step.key,
            )

    def references(self) -> None:
        """Values come from steps that have ended before, and from what there is."""
        before: dict[str, int] = {}
        for key in _in_order(self._workflow):
            step = self._workflow.step(key)
            ancestors = 0
            for need in step.needs:
                ancestors |= before[need.step] | 1 << self._index[need.step]
            before[key] = ancestors
        for index, step in enumerate(self._workflow.steps):
            for reference in _references(step, f"steps[{index}]"):
                self._check_reference(step, reference, before[step.key])

    def _check_reference(self, step: Step, reference: _Reference, before: int) -> None:
        field, path = reference.field, reference.path
        other = step_of(path)
        if path[0] == "steps":
            if other is None:
                self._incomplete(field, path)
            elif other not in self._index:
                self._unknown(field, other)
            elif not before >> self._index[other] & 1:
                self.refuse(
                    field,
                    "workflow.not_before",
                    "“%(path)s” is not there yet when “%(step)s” starts: add “%(other)s” to its"
                    " needs, or to those of a step before it.",
                    path=in_words(path),
                    step=step.key,
                    other=other,
                )
            elif len(path) < 3 or path[2] not in STEP_FIELDS:
                self._incomplete(field, path)
        elif path[0] in ("item", "item_index"):
            if step.for_each is None or not field.endswith(".parameters"):
                self.refuse(
                    field,
                    "workflow.no_item",
                    "“%(path)s” is there in the parameters of a step with “for_each” only.",
                    path=in_words(path),
                )
        elif path[0] == "run" and (len(path) < 2 or path[1] not in RUN_FIELDS):
            self.refuse(
                field,
                "workflow.reference",
                "“%(path)s” is no value of a run; there are %(known)s.",
                path=in_words(path),
                known=", ".join(f"run.{name}" for name in RUN_FIELDS),
            )

    def _incomplete(self, field: str, path: Path) -> None:
        self.refuse(
            field,
            "workflow.reference",
            "“%(path)s” must go on: a step has a “result” and a “state”, such as"
            " steps.extract.result.",
            path=in_words(path),
        )

    def _unknown(self, field: str, key: str) -> None:
        if meant := closest(key, self._index):
            self.refuse(
                field,
                "workflow.unknown_step",
                "There is no step “%(step)s”; did you mean “%(meant)s”?",
                step=key[:100],
                meant=meant,
            )
        else:
            self.refuse(
                field,
                "workflow.unknown_step",
                "There is no step “%(step)s” in this workflow; add it, or name another one.",
                step=key[:100],
            )


def _require(
    ruled_out: dict[str, int], need: Need, index: int, never: Mapping[str, Mapping[str, int]]
) -> None:
    """Add what a need rules out; one that has run had what it needs itself."""
    for outcome in "sfk":
        if outcome not in _OUTCOMES[need.outcome]:
            ruled_out[outcome] |= 1 << index
    if need.outcome in (NeedOutcome.SUCCEEDED, NeedOutcome.FAILED):
        for outcome, steps in never[need.step].items():
            ruled_out[outcome] |= steps


def _constant(condition: StepCondition) -> bool | None:
    try:
        return condition.holds({})
    except BadValue:
        return None


def _references(step: Step, field: str) -> Iterator[_Reference]:
    for path in sorted(references_in(step.parameters), key=in_words):
        yield _Reference(f"{field}.parameters", path)
    if step.for_each is not None:
        for path in sorted(references_in(step.for_each.items), key=in_words):
            yield _Reference(f"{field}.for_each", path)
    if step.when is not None:
        for path in sorted(compile_condition(step.when).paths, key=in_words):
            yield _Reference(f"{field}.when", path)
    if isinstance(step.body, Wait) and step.body.until is not None:
        for path in sorted(references_in(f'"{step.body.until}"'), key=in_words):
            yield _Reference(f"{field}.wait", path)
    if isinstance(step.body, Approval):
        for path in sorted(references_in(json.dumps(step.body.message)), key=in_words):
            yield _Reference(f"{field}.approval.message", path)


def _in_order(workflow: Workflow) -> Sequence[str]:
    """Keys, each after those that it needs; those on or behind a circle are left out."""
    waiting = {step.key: len(step.needs) for step in workflow.steps}
    after: dict[str, list[str]] = {step.key: [] for step in workflow.steps}
    for step in workflow.steps:
        for need in step.needs:
            after[need.step].append(step.key)
    order = [key for key, count in waiting.items() if not count]
    for key in order:  # grows while it is read
        for follower in after[key]:
            waiting[follower] -= 1
            if not waiting[follower]:
                order.append(follower)
    return order


def _circle(workflow: Workflow, stuck: set[str]) -> list[str]:
    """A way from a step back to itself, along what each of them needs."""
    way = [next(step.key for step in workflow.steps if step.key in stuck)]
    while way.count(way[-1]) == 1:
        needs = workflow.step(way[-1]).needs
        way.append(next(need.step for need in needs if need.step in stuck))
    return way[way.index(way[-1]) :]
