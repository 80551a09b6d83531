"""What steps of workflows are begun with: the jobs they run, and the results that they name."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import FAILURES, Origin, Run, RunState
from tickwheel_admin.domain.workflows.book import WorkflowBook
from tickwheel_admin.domain.workflows.graph import HandlerStep, ScriptStep
from tickwheel_admin.domain.workflows.references import results_named, steps_named
from tickwheel_admin.domain.workflows.states import PASSED_BY_HAND, StepState, StepStatus
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import ALIVE, job, run, workflow_item
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.workflows.steps import items_from, read_kept_list, read_spawned
from tickwheel_shared.workflows.paths import Scope
from tickwheel_shared.workflows.values import BadValue, too_deep

_BAD_ENDS = frozenset({*(state.value for state in FAILURES), RunState.CANCELLED.value})

# What the items of one `for_each` may have returned together, to be named by other steps: it is
# read whole, under the lock of the workflow's run.
MOST_RESULT_CHARS = 4 * 1024 * 1024

Place = tuple[WorkflowBook, int]  # a step of a run, by its index
Known = tuple[int, str]  # run of a workflow, and step
WantedJob = tuple[int, int | None, int]  # its id, revision (None: the current one), and executor

_items = msgspec.json.Decoder(list[msgspec.Raw])
_RESULTS = sa.select(run.c.id, run.c.result).where(among(run.c.id, "ids"))
_JOBS = sa.select(job.c.id, job.c.executor_id, job.c.revision).where(
    among(job.c.id, "ids"), job.c.deleted_at == ALIVE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepJob:
    """The job that a step runs, as it is now."""

    job_id: int
    executor_id: int
    revision: int
    config: JobConfig


class StepInputs:
    """Reads what some steps need, all of them at once."""

    def __init__(self, conn: sa.Connection, configs: JobConfigs) -> None:
        self._conn = conn
        self._configs = configs
        self._wanted_jobs: dict[Known, WantedJob] = {}
        self._wanted_results: dict[Known, Place] = {}
        self._jobs: dict[Known, StepJob] = {}
        self._results: dict[Known, str | None] = {}  # JSON text
        self._values: dict[Known, object] = {}  # the same, decoded
        self._too_large: set[Known] = set()
        self._depths: dict[int, int] = {}  # by run of a workflow

    def want(self, book: WorkflowBook, index: int) -> None:
        """Let `read` read what a step needs that is to begin, or items of which are."""
        step = book.step(index)
        job_of = book.graph.job_of(step.key)
        if job_of is not None and (book.run.id, step.key) not in self._jobs:
            executor_id = None
            if isinstance(step.body, HandlerStep | ScriptStep):
                executor_id = step.body.executor_id
            self._wanted_jobs[book.run.id, step.key] = (
                *job_of,
                executor_id or book.run.executor_id,
            )
        has_begun = book.steps[index].state is StepState.RUNNING
        for key in results_named(step, has_begun=has_begun):
            self._wanted_results[book.run.id, key] = book, book.graph.index_of[key]

    def read(self) -> None:
        """Read what is wanted and not known."""
        self._read_jobs(self._wanted_jobs)
        self._read_results(self._wanted_results)
        self._wanted_jobs, self._wanted_results = {}, {}

    def job_of(self, book: WorkflowBook, index: int) -> StepJob | None:
        """The job of a step; None: it has been deleted."""
        return self._jobs.get((book.run.id, book.step(index).key))

    def result_of(self, book: WorkflowBook, key: str, *, most: int) -> str | None:
        """JSON text that a step returned; None: nothing, or it has not succeeded.

        Args:
            most: bytes.

        Raises:
            BadValue: value.too_large.
        """
        known = book.run.id, key
        self._read_results({known: (book, book.graph.index_of[key])})
        result = self._results.get(known)
        if known in self._too_large or (result is not None and len(result.encode()) > most):
            raise BadValue(
                "value.too_large", f"The result of the step “{key}” is larger than {most >> 10} KiB"
            )
        return result

    def items_taken(self, book: WorkflowBook, index: int) -> set[int]:
        """Which items behind those that have begun are taken over from another run."""
        status = book.steps[index]
        if status.items_started == status.next_item:
            return set()
        return items_from(self._conn, book.run.id, index, first=status.next_item)

    def scope(self, book: WorkflowBook, index: int) -> Scope:
        """Where a step's values come from.

        Raises:
            BadValue: value.too_large, value.too_deep.
        """
        own = book.run
        config = self._configs.get_many(self._conn, {(own.job_id, own.job_revision)})
        parameters = own.parameters
        if parameters is None:
            parameters = config[own.job_id, own.job_revision].parameters
        return {
            "parameters": _decoded(parameters),
            "run": {"id": own.id, "scheduled_at": instant_to_iso(own.works_for_at)},
            "steps": {key: self._as_value(book, key) for key in steps_named(book.step(index))},
        }

    def _as_value(self, book: WorkflowBook, key: str) -> dict[str, object]:
        """What other steps may name of one."""
        known = book.run.id, key
        if known in self._too_large:
            limit = MOST_RESULT_CHARS >> 20
            raise BadValue(
                "value.too_large",
                f"The results of the items of “{key}” are larger than {limit} MiB together;"
                " let them return the addresses of their data.",
            )
        status = book.steps[book.graph.index_of[key]]
        value: dict[str, object] = {"state": _state_of(status)}
        if known in self._results:
            if known not in self._values:
                result = self._results[known]
                self._values[known] = None if result is None else _decoded(result)
            value["result"] = self._values[known]
        return value

    def spawned_items(self, book: WorkflowBook, index: int) -> list[msgspec.Raw]:
        """What the step's own run has spawned, as it was written."""
        run_id = book.steps[index].run_id or 0
        return _items.decode(read_spawned(self._conn, book.run.id, run_id))

    def kept_items(self, book: WorkflowBook, index: int) -> list[Any]:
        """The list of a `for_each` as it was when the step began.

        Raises:
            LookupError: it was not kept.
        """
        kept = read_kept_list(self._conn, book.run.id, index)
        if kept is None:
            raise LookupError(f"the list of step {book.step(index).key} is gone")
        found: list[Any] = json.loads(kept)
        return found

    def depth_of(self, own: Run) -> int:
        """How many workflows the run is within, itself counted."""
        if own.id not in self._depths:
            self._depths[own.id] = self._read_depth(own)
        return self._depths[own.id]

    def _read_depth(self, own: Run) -> int:
        depth = 1
        above = own.parent_run_id if own.origin is Origin.STEP else None
        while above is not None:
            depth += 1
            row = self._conn.execute(
                sa.select(run.c.origin, run.c.parent_run_id).where(run.c.id == above)
            ).first()
            is_step = row is not None and row.origin == Origin.STEP.value
            above = row.parent_run_id if row is not None and is_step else None
        return depth

    def _read_jobs(self, wanted: Mapping[Known, WantedJob]) -> None:
        if not wanted:
            return
        current = {
            row.id: row
            for row in self._current({job_id for job_id, rev, _ in wanted.values() if rev is None})
        }
        jobs = {}
        for known, (job_id, revision, executor_id) in wanted.items():
            if revision is not None:  # of a hidden job
                jobs[known] = job_id, revision, executor_id
            elif job_id in current:
                jobs[known] = job_id, current[job_id].revision, current[job_id].executor_id
        configs = self._configs.get_many(self._conn, {(j, r) for j, r, _ in jobs.values()})
        for known, (job_id, revision, executor_id) in jobs.items():
            config = configs.get((job_id, revision))
            if config is not None:
                self._jobs[known] = StepJob(
                    job_id=job_id, executor_id=executor_id, revision=revision, config=config
                )

    def _current(self, job_ids: Iterable[int]) -> Iterable[sa.Row[tuple[int, int, int]]]:
        ids = sorted(job_ids)
        return self._conn.execute(_JOBS, {"ids": ids}) if ids else ()

    def _read_results(self, places: Mapping[Known, Place]) -> None:
        # Two retries of one run may have taken over the same step.
        single: defaultdict[int, list[Known]] = defaultdict(list)
        for known, (book, index) in places.items():
            status = book.steps[index]
            if known in self._results or known in self._too_large:
                continue
            if status.state is not StepState.SUCCEEDED:
                continue  # it may succeed while this transaction decides
            if status.items is not None or book.step(index).for_each is not None:
                result = self._results_of_items(book, index)
                if result is None:
                    self._too_large.add(known)
                else:
                    self._results[known] = result
            elif status.run_id is None or status.reason == PASSED_BY_HAND:  # or it has none
                self._results[known] = None
            else:
                single[status.run_id].append(known)
        if single:
            for row in self._conn.execute(_RESULTS, {"ids": sorted(single)}):
                self._results |= dict.fromkeys(single[row.id], row.result)

    def _results_of_items(self, book: WorkflowBook, index: int) -> str | None:
        """What the items returned, in the order of their list; null for those that failed.

        None: it is more than MOST_RESULT_CHARS.
        """
        of_step = sa.and_(
            workflow_item.c.workflow_run_id == book.run.id,
            workflow_item.c.step_index == index,
            run.c.state == RunState.SUCCEEDED.value,
        )
        joined = sa.join(workflow_item, run, run.c.id == workflow_item.c.run_id)
        length = sa.select(sa.func.sum(sa.func.length(run.c.result))).select_from(joined)
        if int(self._conn.execute(length.where(of_step)).scalar_one() or 0) > MOST_RESULT_CHARS:
            return None
        rows = self._conn.execute(
            sa.select(workflow_item.c.item_index, run.c.result).select_from(joined).where(of_step)
        )
        results: defaultdict[int, str] = defaultdict(lambda: "null")
        for item_index, result in rows:
            results[item_index] = result or "null"
        return "[" + ",".join(results[n] for n in range(book.steps[index].items or 0)) + "]"


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError as error:  # of a run from before such values were refused
        raise too_deep() from error


def _state_of(status: StepStatus) -> str:
    """As the state of its run, if that ended badly."""
    if status.state is StepState.FAILED and status.reason in _BAD_ENDS:
        return status.reason
    return status.state.value
