"""What a retry of a workflow's run does anew, and what it takes over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.admin.kit.workflows import step
from tickwheel_admin.domain.workflows.graph import Approval, ForEach, Workflow
from tickwheel_admin.domain.workflows.retries import (
    ApprovedOtherwise,
    StepChoice,
    StepsAgain,
    StepsDiffer,
    StepsNotAnew,
    StepsTaken,
    steps_anew,
    take_over,
)
from tickwheel_admin.domain.workflows.states import StepState, StepStatus

S = StepState
FROM, ONLY, FAILED = StepsAgain.FROM, StepsAgain.ONLY, StepsAgain.FAILED
GRAPH = Workflow(
    steps=(
        step("a"),
        step("b", "a"),
        step("c", "b"),
        step("tell", "b:failed"),
        step("clean", "b:ended"),
        step("other"),
    )
)


def statuses(graph: Workflow, told: str) -> list[StepStatus]:
    """ "succeeded failed skipped/needs" in the order of the graph."""
    rows = []
    for index, words in enumerate(told.split()):
        state, _, reason = words.partition("/")
        rows.append(
            StepStatus(
                workflow_run_id=7,
                step_index=index,
                state=StepState(state),
                reason=reason or None,
                run_id=100 + index,
                since=1,
                items=3 if graph.steps[index].for_each else None,
            )
        )
    return rows


@pytest.mark.parametrize(
    ("told", "choice", "expected"),
    [
        # A failure that `tell` has handled stays as it is while something else has failed.
        (
            "succeeded failed skipped/needs succeeded succeeded failed",
            StepChoice(again=FAILED),
            "other",
        ),
        # When what handled it failed itself, both are done again.
        (
            "succeeded failed skipped/needs failed succeeded succeeded",
            StepChoice(again=FAILED),
            "b c tell clean",
        ),
        (
            "succeeded failed skipped/needs skipped/needs succeeded succeeded",
            StepChoice(again=FAILED),
            "b c tell clean",
        ),
        # What handled a failure runs anew because of another one, so the failure is not made good.
        (
            "failed failed skipped/needs succeeded succeeded succeeded",
            StepChoice(again=FAILED),
            "a b c tell clean",
        ),
        (
            "succeeded succeeded skipped/stopped waiting skipped/stopped succeeded",
            StepChoice(again=FAILED),
            "c tell clean",
        ),
        ("succeeded " * 6, StepChoice(again=FAILED), ""),
        ("succeeded " * 6, StepChoice(again=FROM, step="b"), "b c tell clean"),
        ("succeeded " * 6, StepChoice(again=ONLY, step="b"), "b"),
        ("succeeded " * 6, StepChoice(), "a b c tell clean other"),
    ],
)
def test_which_steps_are_done_anew(told: str, choice: StepChoice, expected: str) -> None:
    anew = steps_anew(GRAPH, statuses(GRAPH, told), choice)
    assert " ".join(GRAPH.steps[index].key for index in sorted(anew)) == expected


def taken(
    old: Workflow,
    told: str,
    choice: StepChoice,
    *,
    new: Workflow | None = None,
    same_parameters: bool = True,
) -> StepsTaken:
    return take_over(
        old,
        statuses(old, told),
        new or old,
        choice,
        run_id=9,
        by="ann",
        same_parameters=same_parameters,
        now=5,
    )


def rows_of(found: StepsTaken) -> Sequence[tuple[int, str, str | None, int | None, int | None]]:
    return [(r.step_index, r.state.value, r.reason, r.run_id, r.taken_from) for r in found.rows]


def test_what_is_taken_over_stays_as_it_ended() -> None:
    told = "succeeded failed skipped/needs succeeded succeeded waiting"

    found = taken(GRAPH, told, StepChoice(again=ONLY, step="a"))

    assert rows_of(found) == [
        (1, "failed", None, 101, 7),
        (2, "skipped", "needs", 102, 7),
        (3, "succeeded", None, 103, 7),
        (4, "succeeded", None, 104, 7),
        (5, "skipped", "stopped", 105, 7),  # it never ended, and is not to begin here
    ]


def test_a_step_that_is_skipped_counts_as_passed() -> None:
    told = "succeeded failed skipped/needs skipped/needs succeeded succeeded"
    choice = StepChoice(again=FAILED, skip=("b",), reason="done by hand")

    found = taken(GRAPH, told, choice)

    assert rows_of(found)[-1] == (1, "succeeded", "passed_by_hand", None, None)
    assert (found.rows[-1].decided_by, found.rows[-1].message) == ("ann", "done by hand")
    assert [row[0] for row in rows_of(found)] == [0, 5, 1]  # c, tell and clean are decided anew
    with pytest.raises(StepsNotAnew, match=r"^a$"):
        taken(GRAPH, told, StepChoice(again=FAILED, skip=("a",), reason="?"))


def test_another_revision_must_have_the_same_steps() -> None:
    told = "succeeded failed skipped/needs skipped/needs succeeded succeeded"
    other = Workflow(
        steps=(
            step("new"),
            step("other", description="only words"),
            step("a", parameters='{"day":1}'),
            step("b", "a"),
        )
    )
    with pytest.raises(StepsDiffer, match=r"^a$"):
        taken(GRAPH, told, StepChoice(again=FAILED), new=other)

    found = taken(GRAPH, told, StepChoice(again=FROM, step="a"), new=other)

    assert rows_of(found) == [(1, "succeeded", None, 105, 7)]  # at its place in the new graph


@pytest.mark.parametrize(
    ("told", "choice", "same_parameters", "partly"),
    [
        ("succeeded failed", StepChoice(again=FAILED), True, True),
        ("succeeded failed", StepChoice(again=FAILED), False, False),
        ("failed failed", StepChoice(again=FAILED), True, False),  # the list may be another one
        ("succeeded failed", StepChoice(again=FROM, step="each"), True, False),
    ],
)
def test_items_that_succeeded_are_taken_over(
    told: str, choice: StepChoice, same_parameters: bool, partly: bool
) -> None:
    each = ForEach(items='"${steps.list.result}"')
    graph = Workflow(steps=(step("list"), step("each", "list:ended", for_each=each)))

    found = taken(graph, told, choice, same_parameters=same_parameters)

    assert found.partly == (((1, 1),) if partly else ())


def test_an_approval_counts_for_its_parameters() -> None:
    ask = step("ask", body=Approval(people=("boss",)))
    graph = Workflow(steps=(ask, step("pay", "ask"), step("other")))
    again = StepChoice(again=FROM, step="pay")
    assert [row[0] for row in rows_of(taken(graph, "succeeded " * 3, again))] == [0, 2]
    with pytest.raises(ApprovedOtherwise, match=r"^ask$"):
        taken(graph, "succeeded " * 3, again, same_parameters=False)
    beside = StepChoice(again=ONLY, step="other")
    assert len(taken(graph, "succeeded " * 3, beside, same_parameters=False).rows) == 2


def test_a_step_that_is_skipped_must_be_the_same_in_both_revisions() -> None:
    old = Workflow(steps=(step("ask", body=Approval()), step("pay", "ask")))
    new = Workflow(steps=(step("ask", body=Approval(people=("boss",))), step("pay", "ask")))
    for again in (FAILED, StepsAgain.ALL):
        choice = StepChoice(again=again, skip=("ask",), reason="it is urgent")
        assert taken(old, "failed skipped", choice).rows
        with pytest.raises(StepsDiffer, match=r"^ask$"):
            taken(old, "failed skipped", choice, new=new)
