"""Which steps a retry of a workflow's run does anew, and what it takes over from that run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from msgspec import structs

from tickwheel_admin.domain.workflows.graph import Approval, NeedOutcome, Step, Workflow
from tickwheel_admin.domain.workflows.references import results_named
from tickwheel_admin.domain.workflows.states import (
    PASSED_BY_HAND,
    STOPPED,
    StepState,
    StepStatus,
)


class StepsAgain(StrEnum):
    """Which steps are done anew; all others are taken over as they ended."""

    ALL = "all"
    FAILED = "failed"  # those that failed or never came to run, and all that depend on them
    FROM = "from"  # one step, and all that depend on it
    ONLY = "only"  # one step alone


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChoice:
    """What somebody wants of a retry."""

    again: StepsAgain = StepsAgain.ALL
    step: str | None = None  # of FROM and ONLY
    skip: tuple[str, ...] = ()  # steps that count as passed, instead of being done anew
    reason: str = ""  # why they are skipped; not empty when some are

    @property
    def takes_over(self) -> bool:
        """Whether it is more than doing everything anew."""
        return self.again is not StepsAgain.ALL or bool(self.skip)

    @property
    def noted(self) -> dict[str, object]:
        """What the audit keeps of it; nothing of doing everything anew."""
        told: dict[str, object] = {}
        if self.again is not StepsAgain.ALL:
            told["steps"] = self.again.value
        if self.step is not None:
            told["step"] = self.step
        if self.skip:
            told |= {"skipped": list(self.skip), "message": self.reason}
        return told


ALL_STEPS = StepChoice()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsTaken:
    """The rows that a retry begins with; steps without one are done anew."""

    rows: tuple[StepStatus, ...]
    # Steps with `for_each`: (index in the run that is repeated, index in the new one).
    whole: tuple[tuple[int, int], ...]  # all their items are taken over
    partly: tuple[tuple[int, int], ...]  # those of their items that succeeded are
    needed: tuple[int, ...]  # steps of the repeated run whose results may still be read


class StepsDiffer(Exception):
    """Steps that would be taken over say something else in the other revision."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(", ".join(keys))
        self.keys = list(keys)


class ApprovedOtherwise(Exception):
    """Approvals that would be taken over were given for other parameters."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(", ".join(keys))
        self.keys = list(keys)


class StepsNotAnew(Exception):
    """Steps that are to be skipped would be taken over."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(", ".join(keys))
        self.keys = list(keys)


def dependents(graph: Workflow, roots: Iterable[int]) -> set[int]:
    """These steps and all that need them, directly or through others."""
    by_need: defaultdict[int, list[int]] = defaultdict(list)
    for index, step in enumerate(graph.steps):
        for need in step.needs:
            by_need[graph.index_of[need.step]].append(index)
    found, left = set[int](), list(roots)
    while left:
        index = left.pop()
        if index not in found:
            found.add(index)
            left += by_need[index]
    return found


def failed_steps(graph: Workflow, steps: Sequence[StepStatus]) -> set[int]:
    """The steps that a retry from the failed ones begins with.

    Those that failed, were stopped or never ended. A failure stays as it is while a step that
    ran because of it has succeeded, and is not done anew itself.
    """
    roots = {
        index
        for index, each in enumerate(steps)
        if not each.has_ended or (each.state is StepState.SKIPPED and each.reason == STOPPED)
    }
    while True:
        anew = dependents(graph, roots)
        made_good = {
            graph.index_of[need.step]
            for index, step in enumerate(graph.steps)
            if index not in anew and steps[index].state is StepState.SUCCEEDED
            for need in step.needs
            if need.outcome is NeedOutcome.FAILED
        }
        more = {
            index
            for index, each in enumerate(steps)
            if each.state is StepState.FAILED and index not in made_good
        }
        if more <= roots:
            return roots
        roots |= more


def steps_anew(graph: Workflow, steps: Sequence[StepStatus], choice: StepChoice) -> set[int]:
    """The steps that are done anew, or skipped by hand, by index.

    Args:
        steps: of the run that is repeated, which has ended.

    Raises:
        KeyError: it has no such step.
    """
    match choice.again:
        case StepsAgain.ALL:
            return set(range(len(graph.steps)))
        case StepsAgain.FAILED:
            return dependents(graph, failed_steps(graph, steps))
        case StepsAgain.FROM:
            return dependents(graph, [graph.index_of[choice.step or ""]])
        case StepsAgain.ONLY:
            return {graph.index_of[choice.step or ""]}


def take_over(
    old: Workflow,
    steps: Sequence[StepStatus],
    new: Workflow,
    choice: StepChoice,
    *,
    run_id: int,
    by: str,
    same_parameters: bool,
    now: int,
) -> StepsTaken:
    """What a new run takes over from an ended one.

    Args:
        old: the graph of the run that is repeated, with its `steps`.
        new: the graph of the new run, the same or that of another revision.
        run_id: of the new run.
        by: whose wish it is.
        same_parameters: the new run has the parameters of the old one; otherwise the list of a
            `for_each` may be another one, and all its items are done anew.

    Raises:
        KeyError: the run that is repeated has no step that the choice names.
        StepsDiffer, StepsNotAnew, ApprovedOtherwise.
    """
    anew = steps_anew(old, steps, choice)
    skip = {old.index_of[key] for key in choice.skip}
    if not skip <= anew:
        raise StepsNotAnew([old.steps[index].key for index in sorted(skip - anew)])
    missing = [key for key in choice.skip if key not in new.index_of]
    kept = [index for index in range(len(old.steps)) if index not in anew]
    both = [index for index in kept if old.steps[index].key in new.index_of]
    # Who may skip a step was asked of the old one.
    compared = [*both, *(index for index in sorted(skip) if old.steps[index].key in new.index_of)]
    differ = [
        step.key
        for step in map(old.steps.__getitem__, compared)
        if not _equal(step, new.step(step.key))
    ]
    if differ or missing:
        raise StepsDiffer(differ + missing)
    if not same_parameters and (approved := _approvals_before(old, both, anew - skip)):
        raise ApprovedOtherwise([old.steps[index].key for index in approved])
    place = {index: new.index_of[old.steps[index].key] for index in both}
    rows = [_taken(steps[index], run_id, place[index], now=now) for index in both]
    rows += [
        StepStatus(
            workflow_run_id=run_id,
            step_index=new.index_of[old.steps[index].key],
            state=StepState.SUCCEEDED,
            reason=PASSED_BY_HAND,
            message=choice.reason,
            decided_by=by,
            since=now,
        )
        for index in sorted(skip)
    ]
    partly = [
        index
        for index in sorted(anew - skip)
        if choice.again is StepsAgain.FAILED
        and same_parameters
        and _goes_on_with_items(old, new, index, steps[index], anew)
    ]
    named = {
        key
        for step in new.steps
        if old.index_of.get(step.key, -1) not in place and step.key not in choice.skip
        for key in results_named(step, has_begun=False)
    }
    if new.output is not None:
        named.add(new.output)
    return StepsTaken(
        rows=tuple(rows),
        whole=tuple((index, place[index]) for index in both if steps[index].items is not None),
        partly=tuple((index, new.index_of[old.steps[index].key]) for index in partly),
        needed=tuple(index for index in both if old.steps[index].key in named),
    )


def part_taken(
    before: StepStatus, run_id: int, index: int, *, succeeded: int, skipped: int, now: int
) -> StepStatus:
    """A `for_each` that begins with items which an earlier run has done."""
    return StepStatus(
        workflow_run_id=run_id,
        step_index=index,
        since=now,
        taken_from=before.workflow_run_id,
        items_started=succeeded + skipped,
        items_succeeded=succeeded,
        items_skipped=skipped,
    )


def _taken(before: StepStatus, run_id: int, index: int, *, now: int) -> StepStatus:
    """A step as it ended in the run that is repeated, or in one that this one had repeated."""
    taken = structs.replace(
        before,
        workflow_run_id=run_id,
        step_index=index,
        since=now,
        started_at=None,
        due_at=None,
        taken_from=before.taken_from or before.workflow_run_id,
    )
    if before.has_ended:
        return taken
    return structs.replace(taken, state=StepState.SKIPPED, reason=STOPPED)


def _approvals_before(graph: Workflow, kept: Collection[int], anew: Collection[int]) -> list[int]:
    """Approvals that are taken over and that a step depends on which runs again."""
    approvals = [index for index in kept if isinstance(graph.steps[index].body, Approval)]
    return [index for index in approvals if dependents(graph, [index]) & set(anew)]


def _equal(step: Step, other: Step) -> bool:
    """Whether two steps do the same; what they tell people does not matter."""
    return replace(step, description="") == replace(other, description="")


def _goes_on_with_items(
    old: Workflow, new: Workflow, index: int, status: StepStatus, anew: Collection[int]
) -> bool:
    """Whether the list of a `for_each` is the same again, so that only its rest is to be done."""
    step = old.steps[index]
    return (
        step.for_each is not None
        and status.state is StepState.FAILED
        and status.items is not None
        and step.key in new.index_of
        and _equal(step, new.step(step.key))
        and not any(old.index_of[need.step] in anew for need in step.needs)
    )
