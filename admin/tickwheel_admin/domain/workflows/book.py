"""One run of a workflow while a transaction decides what becomes of its steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from tickwheel_admin.domain.runs.run import FINAL, Move, Run, RunState
from tickwheel_admin.domain.workflows.ends import end_of
from tickwheel_admin.domain.workflows.graph import Approval, Silence, Step, Workflow
from tickwheel_admin.domain.workflows.states import (
    APPROVAL,
    APPROVED,
    BREAKPOINT,
    DECLINED,
    ITEMS_FAILED,
    STOPPED,
    StepRunKind,
    StepState,
    StepStatus,
    kind_of,
    place_of,
    state_after,
)
from tickwheel_shared.workflows.decide import decide, is_stuck, unhandled_failures

# Items of one workflow's run, in all its steps, that have a run which has not ended; more are begun
# as these end. So no transaction has to write ten thousand runs.
MOST_LIVE_ITEMS = 1_000


class WorkflowBook:
    """The steps of one run, and what has changed of them. The run is locked."""

    def __init__(
        self,
        run: Run,
        graph: Workflow,
        steps: Sequence[StepStatus],
        *,
        stored: Collection[int],
        now: int,
    ) -> None:
        """Begin with what is known of all steps of the graph.

        Args:
            stored: indices of the steps that have a row.
        """
        self.run = run
        self.graph = graph
        self.steps = list(steps)
        self._now = now
        self._before = steps
        self._stored = stored
        self.changed: set[int] = set()  # indices of steps
        self._live_items = sum(_live_items(each) for each in steps if each.items_started)

    @property
    def is_stopping(self) -> bool:
        """Whether the run is to end."""
        return self.run.cancel_requested_at is not None

    def changes(self) -> list[StepStatus]:
        """The steps that are to be written."""
        return [self.steps[index] for index in sorted(self.changed)]

    def first_rows(self) -> list[StepStatus]:
        """Those of the changes that have no row yet."""
        return [each for each in self.changes() if each.step_index not in self._stored]

    def changed_rows(self) -> list[tuple[StepStatus, StepStatus]]:
        """Those of the changes that have one: as they were, and as they are to be."""
        return [
            (self._before[each.step_index], each)
            for each in self.changes()
            if each.step_index in self._stored
        ]

    def set(self, index: int, state: StepState, reason: str | None = None, **more: object) -> None:
        """A step comes to another state."""
        before = self.steps[index]
        if before.started_at is None and state is not StepState.SKIPPED:
            more.setdefault("started_at", self._now)
        if before.state is StepState.READY:
            more.setdefault("message", None)  # what was asked
        more.setdefault("due_at", None)
        self.note(index, state=state, reason=reason, since=self._now, **more)

    def note(self, index: int, **changes: object) -> None:
        """Something else of a step changes."""
        before = self.steps[index]
        after = replace(before, **changes)
        self.steps[index] = after
        self.changed.add(index)
        if after.items_started:
            self._live_items += _live_items(after) - _live_items(before)

    def fail(self, index: int, code: str, message: str) -> None:
        """A step cannot go on; one with live items has failed when these have ended."""
        status = self.steps[index]
        if status.state is StepState.RUNNING and status.items_live > 0:
            self.note(index, reason=code, message=message)
        else:
            self.set(index, StepState.FAILED, code, message=message)

    # --- what has happened -----------------------------------------------------------------------

    def run_ended(self, move: Move, spawned: int | None = None) -> None:
        """The run of a step, or of an item, has ended. What counts no more changes nothing.

        Args:
            spawned: how many items it has spawned; None: it did not.
        """
        key, _ = place_of(move.after.request_key or "")
        index = self.graph.index_of[key]
        status = self.steps[index]
        if move.before.state in FINAL:
            self._ended_late(index, move.after, spawned)
            return
        if status.state is not StepState.RUNNING:
            return
        if self._is_item(index, move.after):
            self.count_item(index, state_after(move.after)[0])
        elif status.run_id == move.after.id and status.items is None:
            self.own_run_ended(index, move.after, spawned)

    def _is_item(self, index: int, run: Run) -> bool:
        """Whether it is the run of an item, and not the step's own."""
        has_list = self.graph.steps[index].for_each is not None
        return has_list or kind_of(run.request_key) is StepRunKind.SPAWNED

    def own_run_ended(self, index: int, ended: Run, spawned: int | None) -> None:
        """The step's own run has ended, and the step with it unless it spawned items."""
        state, reason = state_after(ended)
        if state is not StepState.SUCCEEDED or spawned is None:
            self.set(index, state, reason)
            return
        if self.steps[index].state is not StepState.RUNNING:
            self.set(index, StepState.RUNNING)
        self.note(index, items=spawned)

    def _ended_late(self, index: int, ended: Run, spawned: int | None) -> None:
        """The result of a lost run came after all: it counts while nothing has followed from the
        end of its step.
        """
        status = self.steps[index]
        key = self.graph.steps[index].key
        if any(
            other.state is not StepState.WAITING
            for step, other in zip(self.graph.steps, self.steps, strict=True)
            if any(need.step == key for need in step.needs)
        ):
            return
        if not self._is_item(index, ended):
            is_own = status.run_id == ended.id and status.items is None
            if status.state is StepState.FAILED and is_own:
                self.own_run_ended(index, ended, spawned)
            return
        state, _ = state_after(ended)
        had_failed = status.state is StepState.FAILED
        if status.items_failed == 0 or (had_failed and status.reason != ITEMS_FAILED):
            return
        self.note(index, items_failed=status.items_failed - 1)
        self.count_item(index, state)
        if had_failed:  # now perhaps tolerated; and some items may not have begun
            self.set(index, StepState.RUNNING)

    def count_item(self, index: int, state: StepState) -> None:
        """One more item of a step has ended so."""
        name = f"items_{state.value}"
        self.note(index, **{name: getattr(self.steps[index], name) + 1})

    def settle_items(self, index: int) -> None:
        """End a step none of whose items is live, if none is to be begun any more."""
        status, each = self.steps[index], self.graph.items_of(index)
        if status.state is not StepState.RUNNING or status.items is None:
            return
        if status.items_live > 0:
            return
        if status.reason is not None:
            self.set(index, StepState.FAILED, status.reason)
        elif not each.tolerance.allows(status.items_failed, status.items):
            self.set(index, StepState.FAILED, ITEMS_FAILED)
        elif status.next_item >= status.items:
            self.set(index, StepState.SUCCEEDED)
        elif self.is_stopping:
            self.set(index, StepState.FAILED, STOPPED)

    # --- what follows ----------------------------------------------------------------------------

    def go_on(self) -> list[int]:
        """Do what needs no look elsewhere; the steps to begin, or to begin items of, by index."""
        for index, status in enumerate(self.steps):
            if status.state is StepState.RUNNING:
                self.settle_items(index)
            elif status.state is StepState.READY and not self.is_stopping:
                self._if_due(index, status)
        decision = decide(self.graph, self.steps, stopping=self.is_stopping)
        for index, reason in decision.skip:
            self.set(index, StepState.SKIPPED, reason)
        return [*decision.begin, *self._with_room()]

    def _if_due(self, index: int, status: StepStatus) -> None:
        if status.due_at is None or status.due_at > self._now:
            return
        body = self.graph.steps[index].body
        if status.reason == APPROVAL and isinstance(body, Approval):
            approved = body.silence is Silence.APPROVE
            self.set(
                index,
                StepState.SUCCEEDED if approved else StepState.FAILED,
                APPROVED if approved else DECLINED,
                decided_by=None,  # nobody: whoever let it go before did not answer
            )
        elif status.reason != BREAKPOINT:
            self.set(index, StepState.SUCCEEDED)

    def _with_room(self) -> list[int]:
        """Steps of which more items may be begun, those with the fewest live ones first."""
        if self.is_stopping:
            return []
        found = [
            index
            for index, status in enumerate(self.steps)
            if status.state is StepState.RUNNING and self.room(index) > 0
        ]
        return sorted(found, key=lambda index: self.steps[index].items_live)

    def room(self, index: int) -> int:
        """How many more items of a step may be begun now."""
        status, each = self.steps[index], self.graph.items_of(index)
        if status.items is None or status.reason is not None:
            return 0
        if not each.tolerance.allows(status.items_failed, status.items):
            return 0
        most = each.max_parallel or MOST_LIVE_ITEMS
        return min(
            most - status.items_live,
            MOST_LIVE_ITEMS - self._live_items,
            status.items - status.next_item,
        )

    def has_own_run(self, index: int) -> bool:
        """Whether a step waits for nothing but the end of its one run."""
        status = self.steps[index]
        return status.state is StepState.RUNNING and status.items is None

    # --- the whole -------------------------------------------------------------------------------

    def end(self) -> RunState | None:
        """How the run ends; None: it goes on."""
        return end_of(self.graph, self.steps, cancel_reason=self.run.cancel_reason)

    @property
    def is_stuck(self) -> bool:
        """Whether nothing would ever happen to it again."""
        return is_stuck(self.steps)

    @property
    def failed(self) -> list[str]:
        """Keys of the steps that it fails by."""
        return unhandled_failures(self.graph, self.steps)

    @property
    def next_due_at(self) -> int | None:
        """When a step that is ready goes on by itself."""
        dues = [s.due_at for s in self.steps if s.due_at is not None and not s.has_ended]
        return min(dues, default=None)

    @property
    def progress(self) -> tuple[float, str]:
        """How far it is: share, and steps that have ended of all."""
        ended = sum(each.has_ended for each in self.steps)
        within = sum(
            each.items_ended / each.items
            for each in self.steps
            if each.items and each.state is StepState.RUNNING
        )
        return (ended + within) / len(self.steps), f"{ended}/{len(self.steps)}"

    def step(self, index: int) -> Step:
        """What the graph says of a step."""
        return self.graph.steps[index]


def _live_items(status: StepStatus) -> int:
    return status.items_live if status.state is StepState.RUNNING else 0
