"""What becomes of each run of a forecast, and who holds slots meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tickwheel_admin.domain.forecast.runs import ForecastRun
from tickwheel_admin.domain.runs.run import Origin, RunState

RunKey = tuple[object, ...]  # the same run in forecasts with other draws


@dataclass(slots=True)
class JournalRun:
    """A whole run: a fire with its shards is one."""

    id: int
    key: RunKey
    job_id: int
    executor_id: int
    pool_id: int  # 0: of none
    run_id: int | None  # in the ledger; None: it is predicted
    due_at: int
    parent: int | None = None  # the id of the one whose end asked for it
    start_at: int | None = None  # of its first try; None: it did not start
    end_at: int | None = None  # None: it has not ended at the end of the forecast
    state: RunState = RunState.QUEUED
    node_id: int = 0  # of its first try; 0: nobody knows
    was_parked: bool = False  # it waited for another run of its job
    is_backfill: bool = False
    last_step: int | None = None  # of a workflow: the id of the run that its end depends on


@dataclass(slots=True)
class SlotHold:
    """A slot in use by one attempt."""

    run: int  # the id of the whole run
    job_id: int
    executor_id: int
    pool_id: int
    from_at: int
    to_at: int


class Journal:
    """Written by a simulation while it goes on."""

    def __init__(self) -> None:
        self.runs: dict[int, JournalRun] = {}
        self.holds: list[SlotHold] = []
        self.end = 0
        self._held: dict[int, tuple[ForecastRun, int]] = {}
        self._asked: dict[int, tuple[int, RunKey]] = {}
        self._armed: Counter[int] = Counter()
        self._children: Counter[tuple[int, int]] = Counter()

    def opens(self, run: ForecastRun, run_id: int, *, workflow: ForecastRun | None) -> None:
        """It is in the ledger already; one of a step with the run of its workflow."""
        record = self._add(run, ("open", run_id), run_id=run_id)
        if workflow is not None:
            record.parent = workflow.id
            self._of(workflow).last_step = run.id

    def follows(self, run: ForecastRun, parent: ForecastRun) -> None:
        """It is asked for by the end of another."""
        before = self._of(parent)
        self._children[parent.id, run.job_id] += 1
        key = ("child", run.job_id, self._children[parent.id, run.job_id], *before.key)
        self._asked[run.id] = before.id, key

    def begins_step(
        self, run: ForecastRun, workflow: ForecastRun, *, after: ForecastRun | None, place: RunKey
    ) -> None:
        """It is of a step of a workflow.

        Args:
            after: the run whose end let the step begin; None: the workflow's start did.
            place: the step, and which item of it.
        """
        before = self._of(workflow)
        parent = before if after is None else self._of(after)
        self._asked[run.id] = parent.id, ("step", *place, *before.key)
        before.last_step = run.id

    def ends_with(self, workflow: ForecastRun, last: ForecastRun | None) -> None:
        """The end of a step's run has ended the workflow; None: that of a step without one."""
        self._of(workflow).last_step = None if last is None else last.id

    def due(self, run: ForecastRun) -> None:
        """It is due."""
        self._of(run)

    def parks(self, run: ForecastRun) -> None:
        """It waits for another run of its job."""
        self._of(run).was_parked = True

    def starts(self, run: ForecastRun, at: int) -> None:
        """An attempt begins."""
        record = self._of(run)
        if record.start_at is None:
            record.start_at, record.state = at, RunState.RUNNING
            record.node_id = run.node_id or 0
        if run.node_id is not None:
            self._held[run.id] = run, at

    def releases(self, run: ForecastRun, at: int) -> None:
        """An attempt gives its slot back."""
        _, since = self._held.pop(run.id, (run, at))
        self._hold(run, since, at)

    def ends(self, run: ForecastRun, state: RunState, at: int) -> None:
        """A whole run has ended."""
        record = self._of(run)
        record.end_at, record.state = at, state

    def close(self, end: int) -> None:
        """The forecast ends here."""
        self.end = end
        for run, since in self._held.values():
            self._hold(run, since, end)
        self._held.clear()
        self._asked.clear()
        self._children.clear()

    def _hold(self, run: ForecastRun, since: int, until: int) -> None:
        model = run.model
        whole = run if run.fire is None else run.fire
        self.holds.append(
            SlotHold(whole.id, model.id, model.executor_id, model.pool_id, since, until)
        )

    def _of(self, run: ForecastRun) -> JournalRun:
        if run.fire is not None:
            run = run.fire
        record = self.runs.get(run.id)
        if record is not None:
            return record
        asked = self._asked.pop(run.id, None)
        if asked is not None:
            return self._add(run, asked[1], parent=asked[0])
        trigger = run.trigger
        if trigger is None:
            return self._add(run, ("other", run.job_id, run.scheduled_at))
        if trigger.spec.follows_runs:  # their instants depend on how long others take
            self._armed[trigger.id] += 1
            return self._add(run, ("armed", trigger.id, self._armed[trigger.id]))
        return self._add(run, ("fire", trigger.id, run.scheduled_at))

    def _add(
        self, run: ForecastRun, key: RunKey, *, parent: int | None = None, run_id: int | None = None
    ) -> JournalRun:
        model = run.model
        record = self.runs[run.id] = JournalRun(
            id=run.id,
            key=key,
            job_id=model.id,
            executor_id=model.executor_id,
            pool_id=model.pool_id,
            run_id=run_id,
            due_at=run.first_due_at,
            parent=parent,
            is_backfill=run.origin is Origin.BACKFILL,
        )
        return record
