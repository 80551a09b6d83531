"""Where each step of a workflow's run stands."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_shared.workflows.parts import ENDED as ENDED
from tickwheel_shared.workflows.parts import NEEDS as NEEDS
from tickwheel_shared.workflows.parts import STOPPED as STOPPED
from tickwheel_shared.workflows.parts import StepState as StepState

# Reasons: stable codes.
WHEN = "when"  # skipped: its condition did not hold
BY_HANDLER = "by_handler"  # skipped: its handler said so
TOO_LARGE = "too_large"  # failed: its parameters are
ITEMS_FAILED = "items_failed"  # failed: more items than are tolerated
JOB_DELETED = "job_deleted"  # failed: its job is gone
TOO_DEEP = "too_deep"  # failed: too many workflows within each other
RUN_GONE = "run_gone"  # failed: its run was deleted before it was seen to end
APPROVAL = "approval"  # ready: somebody has to answer
WAIT = "wait"  # ready: an instant has to come
BREAKPOINT = "breakpoint"  # ready: somebody has to let it go on
LET_GO = "let_go"  # waiting: a person lets it go on
APPROVED = "approved"  # succeeded
DECLINED = "declined"  # failed
PASSED_BY_HAND = "passed_by_hand"  # succeeded: a person says that it need not run


class StepStatus(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A row of `workflow_step`."""

    workflow_run_id: int
    step_index: int  # in the graph of the run's revision
    state: StepState = StepState.WAITING
    reason: str | None = None  # of a running one: it fails by this when its items have ended
    message: str | None = None  # for people
    run_id: int | None = None  # None: it has none, or one for each item
    since: int  # when it came to this state
    started_at: int | None = None  # when it first was more than waiting
    due_at: int | None = None  # of a ready one: when it goes on by itself
    decided_by: str | None = None  # the person who approved, declined or let it go on
    # The run of the workflow in which it ended so, when this one repeats that; of a `for_each`
    # that has not ended: the one that some of its items are taken over from.
    taken_from: int | None = None
    # Of a `for_each` from its start, and of a step whose run (`run_id`) has spawned items from the
    # end of that; items are begun in the order of the list.
    items: int | None = None
    next_item: int = 0  # those before this one have begun, or are taken over
    items_started: int = 0  # begun or taken over, wherever they stand in the list
    items_succeeded: int = 0
    items_failed: int = 0
    items_skipped: int = 0  # by their handler

    @property
    def has_ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ENDED

    @property
    def items_ended(self) -> int:
        """Items that have ended, however."""
        return self.items_succeeded + self.items_failed + self.items_skipped

    @property
    def items_live(self) -> int:
        """Items that have a run which has not ended."""
        return self.items_started - self.items_ended


def state_after(run: Run) -> tuple[StepState, str | None]:
    """How a step ends with its run, and why: what was to run and did not has failed."""
    match run.state:
        case RunState.SUCCEEDED:
            return StepState.SUCCEEDED, None
        case RunState.SKIPPED if run.reason == BY_HANDLER:
            return StepState.SKIPPED, BY_HANDLER
        case RunState.SKIPPED:
            return StepState.FAILED, run.reason
    return StepState.FAILED, run.state.value


# Among the parameters of the run of a spawned item; its node is given it beside them.
SPAWNED_ITEM = "$item"


class StepRunKind(StrEnum):
    """What a run of a step is; its request key begins with it."""

    STEP = "step"  # the step's own: it may spawn items
    ITEM = "item"  # of a for_each
    SPAWNED = "spawned"  # of what the step's own run spawned


def request_key_of(
    workflow_run_id: int, step: str, item: int = 0, kind: StepRunKind = StepRunKind.STEP
) -> str:
    """The key that makes the run of a step, or of one of its items, exist once."""
    return f"{kind}:{workflow_run_id}:{step}:{item}"


def kind_of(request_key: str | None) -> StepRunKind | None:
    """What a run with this key is; None: no run of a step."""
    return None if request_key is None else _KINDS.get(request_key.partition(":")[0])


_KINDS = {each.value: each for each in StepRunKind}


def place_of(request_key: str) -> tuple[str, int]:
    """The step and the item of a key that `request_key_of` made."""
    _, _, step, item = request_key.split(":")
    return step, int(item)
