"""The steps of one workflow under test: what begins, what follows, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from tickwheel_executor.workflows.references import as_json
from tickwheel_executor.workflows.step import ApprovalBody, Step, WaitBody
from tickwheel_executor.workflows.workflow import Workflow
from tickwheel_shared.protocol import MAX_PARAMETERS_BYTES
from tickwheel_shared.workflows.conditions import compile_condition
from tickwheel_shared.workflows.decide import decide, unhandled_failures
from tickwheel_shared.workflows.parts import ENDED, MAX_ITEMS, StepState
from tickwheel_shared.workflows.values import BadValue, filled, items_of

from .handler_end import HandlerEnd
from .step_code import Code, StepCode, code_of, inner_workflow, within
from .tries import Tries
from .workflow_clock import WorkflowClock
from .workflow_end import StepEnd, StepRun, WorkflowEnd

MOST_LIVE_ITEMS = 1_000  # of one workflow, as the admin has it
_BAD_ENDS = ("failed", "timed_out", "cancelled")
_APPROVAL, _BREAKPOINT, _WAIT, _LET_GO = "approval", "breakpoint", "wait", "let_go"


@dataclass(slots=True)
class _Status:
    """Where a step stands."""

    state: StepState = StepState.WAITING
    reason: str | None = None
    message: str = ""
    result: Any = None
    due_at: int | None = None
    items: list[Any] | None = None  # of its list, or that its run has spawned
    next_item: int = 0
    live: int = 0
    results: dict[int, Any] = field(default_factory=dict)  # of items that succeeded
    items_failed: int = 0
    runs: list[StepRun] = field(default_factory=list)

    def end(self, state: StepState, reason: str | None = None, message: str = "") -> None:
        """It has ended."""
        self.state, self.reason, self.message = state, reason, message or self.message
        self.due_at = None

    @property
    def shown(self) -> str:
        """As `${steps.KEY.state}`."""
        if self.state is StepState.FAILED and self.reason in _BAD_ENDS:
            return self.reason
        return self.state.value


@dataclass(frozen=True, slots=True)
class _Live:
    """A run that goes on."""

    index: int
    item: int | None  # None: the run of the step itself


class WorkflowPlay:
    """One run of a workflow.

    Args:
        parameters: over those of the workflow.
        answers: by step, whether a person lets it go on.
    """

    def __init__(
        self,
        workflow: Workflow,
        code: StepCode,
        *,
        parameters: Mapping[str, Any],
        answers: Mapping[str, bool],
        clock: WorkflowClock,
    ) -> None:
        self._workflow = workflow
        self._code = code
        self._answers = answers
        self._clock = clock
        job = workflow.handlers.jobs.get(workflow.name) or {}
        self._parameters = {**job.get("parameters", {}), **parameters}
        self._steps = [_Status() for _ in workflow.steps]
        self._began: list[str] = []
        self._live: dict[asyncio.Task[HandlerEnd], _Live] = {}  # in the order of their begin

    async def play(self) -> WorkflowEnd:
        """Play it to its end; raises ValueError if somebody has to answer who does not."""
        try:
            while True:
                self._go_on()
                if all(each.state in ENDED for each in self._steps):
                    return self._end()
                if not self._live:
                    self._pass_time()
                    continue
                done, _ = await asyncio.wait(self._live, return_when=asyncio.FIRST_COMPLETED)
                for task in [each for each in self._live if each in done]:
                    self._run_ended(self._live.pop(task), task.result())
        finally:
            for task in self._live:
                task.cancel()
            await asyncio.gather(*self._live, return_exceptions=True)

    # --- what follows -----------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Decide until nothing follows any more, as the admin's transaction does."""
        while True:
            for step, status in self._pairs():
                if status.state is StepState.RUNNING:
                    _settle_items(step, status)
                elif status.state is StepState.READY:
                    self._if_due(step, status)
            decision = decide(self._workflow, self._steps, stopping=False)
            for index, reason in decision.skip:
                self._steps[index].end(StepState.SKIPPED, reason)
            places = [*decision.begin, *self._with_room()]
            if not places:
                return
            for index in places:
                self._begin(index)

    def _pairs(self) -> Iterator[tuple[Step, _Status]]:
        return zip(self._workflow.steps, self._steps, strict=True)

    def _if_due(self, step: Step, status: _Status) -> None:
        if status.due_at is None or status.due_at > self._clock.now:
            return
        if isinstance(step.body, ApprovalBody):
            self._answered(status, step.body.approval.get("silence") == "approve")
        else:
            status.end(StepState.SUCCEEDED)

    def _answered(self, status: _Status, approved: bool) -> None:
        if not approved:
            status.end(StepState.FAILED, "declined")
        elif status.reason == _BREAKPOINT:
            status.state, status.reason = StepState.WAITING, _LET_GO
        else:
            status.end(StepState.SUCCEEDED, "approved")

    def _with_room(self) -> list[int]:
        """Steps of which more items may be begun, those with the fewest live ones first."""
        found = [
            index
            for index, status in enumerate(self._steps)
            if status.state is StepState.RUNNING and self._room(index) > 0
        ]
        return sorted(found, key=lambda index: self._steps[index].live)

    def _room(self, index: int) -> int:
        """How many more items of a step may be begun now."""
        step, status = self._workflow.steps[index], self._steps[index]
        if status.items is None:
            return 0
        if not step.tolerance.allows(status.items_failed, len(status.items)):
            return 0
        return min(
            (step.max_parallel or MOST_LIVE_ITEMS) - status.live,
            MOST_LIVE_ITEMS - sum(each.live for each in self._steps),
            len(status.items) - status.next_item,
        )

    def _pass_time(self) -> None:
        """Nothing runs: the next instant comes."""
        dues = [each.due_at for each in self._steps if each.due_at is not None]
        if not dues:
            waiting = [s.key for s, status in self._pairs() if status.state is StepState.READY]
            key = waiting[0]
            raise ValueError(f"nobody answers {key!r}: give answers={{{key!r}: True}}, or False")
        self._clock.pass_until(min(dues))

    # --- begins -----------------------------------------------------------------------------------

    def _begin(self, index: int) -> None:
        step, status = self._workflow.steps[index], self._steps[index]
        try:
            if status.state is StepState.RUNNING:
                self._begin_items(index)
            elif step.when is not None and not compile_condition(step.when).holds(self._scope()):
                status.end(StepState.SKIPPED, "when")
            elif step.pause_before and status.reason != _LET_GO:
                status.state, status.reason = StepState.READY, _BREAKPOINT
                self._answered(status, self._answers.get(step.key, True))
            else:
                self._began.append(step.key)
                self._begin_body(index)
        except BadValue as error:
            status.end(StepState.FAILED, error.code, str(error))

    def _begin_body(self, index: int) -> None:
        step, status = self._workflow.steps[index], self._steps[index]
        if isinstance(step.body, ApprovalBody):
            deadline = step.body.approval.get("deadline_seconds")
            status.state, status.reason = StepState.READY, _APPROVAL
            if deadline is not None:
                status.due_at = self._clock.now + round(deadline * 1000)
            if step.key in self._answers:
                self._answered(status, self._answers[step.key])
        elif isinstance(step.body, WaitBody):
            status.state, status.reason = StepState.READY, _WAIT
            status.due_at = self._until(step.body.wait)
        elif step.items is not None:
            status.items = items_of(step.items, self._scope(), most=MAX_ITEMS)
            status.state = StepState.RUNNING
            self._begin_items(index)
        else:
            given = filled(step.parameters, self._scope())
            self._start(index, None, given)
            status.state = StepState.RUNNING

    def _until(self, wait: Mapping[str, Any]) -> int:
        if "until" not in wait:
            return self._clock.now + round(float(wait["seconds"]) * 1000)
        value = msgspec.json.decode(filled(as_json(wait["until"]), self._scope()))
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is not None:
                return round(moment.timestamp() * 1000)
        except (TypeError, ValueError):
            pass
        raise BadValue("wait.no_instant", f"This is no instant: {value!r:.200}")

    def _begin_items(self, index: int) -> None:
        step, status = self._workflow.steps[index], self._steps[index]
        scope = self._scope()
        while status.items is not None and self._room(index) > 0:
            place = status.next_item
            status.next_item += 1
            own = {**scope, "item": status.items[place], "item_index": place}
            try:
                self._start(index, place, filled(step.parameters, own))
            except BadValue as error:  # it has failed without a run; the first of them is told
                status.message = status.message or f"Item {place}: {error}"
                status.items_failed += 1
                continue
            status.live += 1

    def _scope(self) -> dict[str, Any]:
        steps: dict[str, dict[str, Any]] = {}
        for step, status in self._pairs():
            steps[step.key] = {"state": status.shown}
            if status.state is StepState.SUCCEEDED:
                steps[step.key]["result"] = status.result
        run = {"id": 1, "scheduled_at": self._clock.began_in_words}
        return {"parameters": self._parameters, "run": run, "steps": steps}

    # --- runs -------------------------------------------------------------------------------------

    def _start(self, index: int, item: int | None, given: str) -> None:
        step = self._workflow.steps[index]
        stands = step.key in self._code.returns
        inner = None if stands else inner_workflow(self._workflow, step)
        own = msgspec.json.decode(given)
        if inner is not None:
            run = self._play_inner(inner, step, own)
        else:
            code = None if stands else code_of(self._workflow, step)
            parameters = own if code is None else {**code.parameters, **own}
            if len(as_json(parameters).encode()) > MAX_PARAMETERS_BYTES:
                limit = MAX_PARAMETERS_BYTES // 1024
                raise BadValue("too_large", f"Its parameters are larger than {limit} KiB.")
            run = self._try(index, item, code, parameters)
        self._live[asyncio.get_running_loop().create_task(run)] = _Live(index, item)

    async def _try(
        self, index: int, item: int | None, code: Code | None, parameters: Mapping[str, Any]
    ) -> HandlerEnd:
        """A run with its tries; their delays take no time."""
        step, status = self._workflow.steps[index], self._steps[index]
        spawned = None
        if item is not None and step.items is None and status.items is not None:
            spawned = status.items[item]
        tries = Tries(step.rules if code is None else code.rules)
        run_id, checkpoint = self._code.new_run(), None
        while True:
            end = await self._code.run(
                code,
                step.key,
                parameters,
                run_id=run_id,
                try_number=tries.number,
                max_tries=tries.most,
                checkpoint=checkpoint,
                may_spawn=item is None,
                item=spawned,
                clock=self._clock,
            )
            self._steps[index].runs.append(
                StepRun(parameters=parameters, end=end, item_index=item, try_number=tries.number)
            )
            delay_ms = tries.delay_after(end)
            if delay_ms is None:
                return end
            self._clock.pass_until(self._clock.now + delay_ms)
            checkpoint = end.checkpoint

    async def _play_inner(
        self, inner: Workflow, step: Step, parameters: Mapping[str, Any]
    ) -> HandlerEnd:
        play = WorkflowPlay(
            inner,
            self._code.of_inner(step.key),
            parameters=parameters,
            answers=within(step.key, self._answers),
            clock=self._clock,
        )
        end = await play.play()
        return HandlerEnd(
            outcome=end.outcome,
            result=end.result,
            message=f"Failed: {', '.join(end.failed)}." if end.failed else "",
            log=[],
            progress=[],
            state=None,
            checkpoint=None,
            retry_after=None,
            final=False,
            seconds=0.0,
        )

    def _run_ended(self, live: _Live, end: HandlerEnd) -> None:
        status = self._steps[live.index]
        if live.item is not None:
            status.live -= 1
            if end.succeeded:
                status.results[live.item] = end.result
            elif end.outcome != "skipped":
                status.items_failed += 1
        elif end.succeeded and end.spawned is not None:
            status.items = end.spawned
        elif end.succeeded:
            status.result = end.result
            status.end(StepState.SUCCEEDED)
        elif end.outcome == "skipped":
            status.end(StepState.SKIPPED, "by_handler", end.message)
        else:
            status.end(StepState.FAILED, end.outcome, end.message)

    # --- the whole --------------------------------------------------------------------------------

    def _end(self) -> WorkflowEnd:
        failed = unhandled_failures(self._workflow, self._steps)
        steps = {
            step.key: StepEnd(
                state=status.shown,
                reason=status.reason,
                message=status.message,
                result=status.result if status.state is StepState.SUCCEEDED else None,
                runs=tuple(status.runs),
            )
            for step, status in self._pairs()
        }
        output = self._workflow.output
        return WorkflowEnd(
            outcome="failed" if failed else "succeeded",
            result=None if output is None else steps[output].result,
            failed=tuple(failed),
            steps=steps,
            began=tuple(self._began),
            seconds=self._clock.seconds,
        )


def _settle_items(step: Step, status: _Status) -> None:
    """End a `for_each` none of whose items is live, if none is to be begun any more."""
    if status.items is None or status.live > 0:
        return
    if not step.tolerance.allows(status.items_failed, len(status.items)):
        status.end(StepState.FAILED, "items_failed")
    elif status.next_item >= len(status.items):
        status.result = [status.results.get(n) for n in range(len(status.items))]
        status.end(StepState.SUCCEEDED)
