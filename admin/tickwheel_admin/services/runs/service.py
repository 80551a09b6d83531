"""Runs: following them, stopping them, doing them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import sqlalchemy as sa

from tickwheel_admin.domain.input.job import parse_parameters
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.domain.workflows.retries import ALL_STEPS, StepChoice
from tickwheel_admin.domain.workflows.retries import StepsAgain as StepsAgain
from tickwheel_admin.services.events.events import CANCEL, QUEUED, RUNS, TRIGGERS, Events
from tickwheel_admin.services.lists.heavy_reads import Breath, HeavyReads
from tickwheel_admin.services.lists.paging import Page, check_limit, decode_cursor
from tickwheel_admin.services.runs import batches as run_batches
from tickwheel_admin.services.runs import edits as run_edits
from tickwheel_admin.services.runs.batches import BatchEdit, Outcomes
from tickwheel_admin.services.runs.bulk import STEP, BulkEdits, check_ids, key_for
from tickwheel_admin.services.runs.bulk import Bulk as Bulk
from tickwheel_admin.services.runs.details import RunDetail as RunDetail
from tickwheel_admin.services.runs.details import read_detail, visible_item
from tickwheel_admin.services.runs.edits import Retry, RunEdit
from tickwheel_admin.services.runs.edits import RetryRevision as RetryRevision
from tickwheel_admin.services.runs.log import EarlierPage, check_log_query, read_earlier, read_log
from tickwheel_admin.services.runs.log import LogPage as LogPage
from tickwheel_admin.services.runs.log_lines import EVERY_LINE, LinesWanted
from tickwheel_admin.services.runs.log_lines import LogEntry as LogEntry
from tickwheel_admin.services.runs.queries import MAX_COUNTED, RunPlace, filter_of, narrow, page_at
from tickwheel_admin.services.runs.queries import NO_STEP as NO_STEP
from tickwheel_admin.services.runs.queries import ORIGINS as ORIGINS
from tickwheel_admin.services.runs.queries import Matching as Matching
from tickwheel_admin.services.runs.queries import RunGroup as RunGroup
from tickwheel_admin.services.runs.queries import RunQuery as RunQuery
from tickwheel_admin.services.runs.requests import check_request_key
from tickwheel_admin.services.runs.waiting import Waiting as Waiting
from tickwheel_admin.services.runs.waiting import why_they_wait
from tickwheel_admin.services.runs.workflow_retries import choice_of as choice_of
from tickwheel_admin.services.system.bulk_entries import BulkAction, asked_of, split_cursor
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.lists import AttemptView as AttemptView
from tickwheel_admin.store.runs.lists import RunItem as RunItem
from tickwheel_admin.store.runs.pages import RunPosition, count_runs, page_runs
from tickwheel_admin.store.runs.summaries import RunSummary as RunSummary

T = TypeVar("T")


class Runs:
    """Use cases of runs."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._configs = JobConfigs(keep=1_000)
        self._bulk = BulkEdits(store, ids, configs=self._configs)
        self._searches = HeavyReads()  # of logs

    # --- finding -----------------------------------------------------------------------------

    async def page(
        self, actor: Actor, query: RunQuery, *, cursor: str | None = None, limit: int = 50
    ) -> Page[RunItem]:
        """Newest scheduled first; items come without parameters and result.

        A page can be shorter than `limit`, even empty, and still have a next one.
        """
        check_limit(limit)
        at = decode_cursor(cursor, RunPlace)
        wanted = filter_of(actor, query)

        def read(
            conn: sa.Connection, at: RunPlace | None
        ) -> tuple[list[RunItem], RunPosition | None]:
            narrowed = narrow(conn, wanted, query)
            if narrowed is None:
                return [], None
            before, newer = (None, False) if at is None else (at.position, at.newer)
            return page_runs(conn, narrowed, before=before, limit=limit, newer=newer)

        items, more_at = await self._store.read(read, at)
        if at is not None and at.newer and more_at is None and len(items) < limit:
            # The list begins here: its first page is shown whole, as whoever enters it sees it.
            at = None
            items, more_at = await self._store.read(read, at)
        return page_at(items, at, more_at)

    async def why_they_wait(self, items: Sequence[RunItem]) -> dict[int, Waiting]:
        """What the queued ones of a page wait for, by run id; in a few queries for all of them."""
        queued = [item.run for item in items if item.run.state is RunState.QUEUED]
        if not queued:
            return {}

        def read(conn: sa.Connection) -> dict[int, Waiting]:
            configs = self._configs.get_many(conn, {(r.job_id, r.job_revision) for r in queued})
            return why_they_wait(
                conn, [(run, configs[run.job_id, run.job_revision]) for run in queued]
            )

        return await self._store.read(read)

    async def count_matching(self, actor: Actor, query: RunQuery) -> Matching:
        """How many runs a list shows on all its pages, counted up to 10,000."""
        wanted = filter_of(actor, query)

        def count(conn: sa.Connection) -> Matching:
            narrowed = narrow(conn, wanted, query)
            if narrowed is None:
                return Matching(0, False)
            return Matching(*count_runs(conn, narrowed, limit=MAX_COUNTED))

        return await self._store.read(count)

    async def get(self, actor: Actor, run_id: int) -> RunDetail:
        """One run."""

        return await self._store.read(read_detail, actor, run_id)

    async def log(
        self,
        actor: Actor,
        run_id: int,
        *,
        attempt: int | None = None,
        after: int = 0,
        limit: int = 1_000,
        wanted: LinesWanted = EVERY_LINE,
    ) -> LogPage:
        """Log lines of one attempt, in order and without gaps.

        Args:
            attempt: None: the newest that may have any.
            after: the last line that the caller has already; 0: none.
            wanted: others are left out; a page may then be empty though `more` follow.

        Raises:
            NotFound: also when there was no such attempt.
        """
        check_log_query(after=after, limit=limit)

        def read(conn: sa.Connection) -> LogPage:
            run = visible_item(conn, actor, run_id).run
            return read_log(
                conn, run, attempt=attempt, after=after, limit=limit, wanted=wanted, breath=Breath()
            )

        async with self._turn_to_search(actor, wanted):
            return await self._store.read(read)

    async def log_before(
        self,
        actor: Actor,
        run_id: int,
        *,
        attempt: int | None = None,
        before: int | None = None,
        limit: int = 1_000,
        wanted: LinesWanted = EVERY_LINE,
    ) -> EarlierPage:
        """The last log lines before a line, or before the end; see `log`."""
        check_log_query(after=before or 0, limit=limit)

        def read(conn: sa.Connection) -> EarlierPage:
            run = visible_item(conn, actor, run_id).run
            return read_earlier(
                conn,
                run,
                attempt=attempt,
                before=before,
                limit=limit,
                wanted=wanted,
                breath=Breath(),
            )

        async with self._turn_to_search(actor, wanted):
            return await self._store.read(read)

    def _turn_to_search(
        self, actor: Actor, wanted: LinesWanted
    ) -> AbstractAsyncContextManager[None]:
        """To look for lines computes for long; to read them does not."""
        return nullcontext() if wanted.all else self._searches.turn(actor.user_id)

    # --- changing one ------------------------------------------------------------------------

    async def cancel(self, actor: Actor, run_id: int) -> None:
        """Stop a run: a queued one ends at once, a live one when its node confirms.

        A whole fire is stopped by stopping its shards. Asking again changes nothing.

        Raises:
            Conflict: run.ended.
        """

        def cancel(conn: sa.Connection, edit: RunEdit) -> None:
            run_edits.cancel_run(conn, edit, run_id)

        await self._edited(actor, cancel)
        self._announce()

    async def release(self, actor: Actor, run_id: int) -> None:
        """End a run that was asked to stop without waiting for its node any longer.

        What it waits for may still be running there; runs of its job that stand in line go on.

        Raises:
            Conflict: run.ended; run.not_stopping.
        """

        def release(conn: sa.Connection, edit: RunEdit) -> None:
            run_edits.release_run(conn, edit, run_id)

        await self._edited(actor, release)
        self._announce()

    async def retry(
        self,
        actor: Actor,
        run_id: int,
        *,
        parameters: str | None = None,
        request_key: str | None = None,
        failed_shards_only: bool = False,
        revision: RetryRevision | None = None,
        steps: StepChoice = ALL_STEPS,
        trace: str | None = None,
    ) -> int:
        """Do an ended run again, as a new run of its job; returns the new run's id.

        The new run has the parameters of the ended one and works for the same instant. A shard is
        done again alone, as the only one of a new fire.

        Args:
            parameters: JSON object laid over those of the ended run, key by key; None: nothing.
            request_key: the same key gives the same run, however often it is sent.
            failed_shards_only: of a run that was cut into shards, only those that failed; other
                runs are done again as a whole.
            revision: of the job; its own parameters count in neither case. None: of a workflow
                the original one, of any other job the current one.
            steps: of a workflow: those that are done anew, by `choice_of`.
            trace: that the new run becomes part of (domain.runs.trace); None: that of the run.

        Raises:
            InvalidInput: parameters are no JSON object, or too large together with what they are
                laid over; the key was used for something else.
            Conflict: run.not_ended; job.deleted; run.no_failed_shards; run.not_sharded,
                run.nodes_gone or run.job_busy when shards cannot be done again by themselves;
                of a workflow of which not all is done anew also run.not_workflow,
                run.no_failed_steps, run.retry_goes_on, run.retry_succeeded (FAILED only),
                workflow.steps_differ, workflow.results_gone, step.taken_over.
        """
        wish = _retry(parameters, request_key, failed_shards_only, revision)
        return await self._retry_one(actor, run_id, replace(wish, trace=trace, steps=steps))

    async def _retry_one(self, actor: Actor, run_id: int, wish: Retry) -> int:
        def retry(conn: sa.Connection, edit: RunEdit) -> int:
            return run_edits.retry_run(conn, edit, run_id, wish)

        asked = await self._edited(actor, retry, run_ids=[await self._ids.take("run")])
        self._announce()
        return asked

    # --- changing many -----------------------------------------------------------------------

    async def cancel_many(self, actor: Actor, run_ids: Iterable[int]) -> Bulk:
        """Stop these runs, at most 1,000; those that cannot be stopped are counted by reason."""
        ids = check_ids(run_ids)
        return await self._cancel_all(actor, ids, bulk=_cancelling({"runs": len(ids)}))

    async def cancel_matching(
        self, actor: Actor, query: RunQuery, *, cursor: str | None = None
    ) -> Bulk:
        """Stop all runs that match, 100 of them with each call; without a state, active ones."""
        if query.state is None:
            query = replace(query, state=RunGroup.ACTIVE)
        place, number = split_cursor(cursor)
        page = await self.page(actor, query, cursor=place, limit=STEP)
        ids = [item.run.id for item in page.items]
        bulk = _cancelling({"filter": asked_of(query)}, number=number)
        return await self._cancel_all(actor, ids, bulk=bulk, behind=page.next)

    async def retry_many(
        self,
        actor: Actor,
        run_ids: Iterable[int],
        *,
        request_key: str,
        parameters: str | None = None,
        failed_shards_only: bool = False,
        revision: RetryRevision | None = None,
        include_retried: bool = False,
    ) -> Bulk:
        """Do these runs again, at most 1,000; those that cannot be are counted by reason.

        Args:
            request_key: the same key makes the same new runs, however often it is sent.
            include_retried: also those of which a retry goes on or has succeeded; else they are
                counted as run.retry_goes_on and run.retry_succeeded.
        """
        ids = check_ids(run_ids)
        wish = _retry(parameters, request_key, failed_shards_only, revision)
        wish = replace(wish, unless_retried=not include_retried)
        return await self._retry_all(actor, ids, wish, bulk=_retrying({"runs": len(ids)}))

    async def retry_matching(
        self,
        actor: Actor,
        query: RunQuery,
        *,
        request_key: str,
        cursor: str | None = None,
        parameters: str | None = None,
        failed_shards_only: bool = False,
        revision: RetryRevision | None = None,
        include_retried: bool = False,
    ) -> Bulk:
        """Do all runs again that match, 100 of them with each call; without a state, failed ones.

        New runs never match a later step: steps go from newer runs to older ones.
        """
        if query.state is None:
            query = replace(query, state=RunGroup.FAILED_ANY)
        wish = _retry(parameters, request_key, failed_shards_only, revision)
        wish = replace(wish, unless_retried=not include_retried)
        place, number = split_cursor(cursor)
        page = await self.page(actor, query, cursor=place, limit=STEP)
        ids = [item.run.id for item in page.items]
        bulk = _retrying({"filter": asked_of(query)}, number=number)
        return await self._retry_all(actor, ids, wish, bulk=bulk, behind=page.next)

    async def _cancel_all(
        self, actor: Actor, run_ids: Sequence[int], *, bulk: BulkAction, behind: str | None = None
    ) -> Bulk:
        async def single(actor: Actor, run_id: int) -> int:
            await self.cancel(actor, run_id)
            return run_id

        done = await self._bulk.edit(
            actor, run_ids, run_batches.cancel_runs, single, bulk=bulk, behind=behind
        )
        self._announce()
        return done

    async def _retry_all(
        self,
        actor: Actor,
        run_ids: Sequence[int],
        wish: Retry,
        *,
        bulk: BulkAction,
        behind: str | None = None,
    ) -> Bulk:
        keys = {run_id: key_for(wish.request_key or "", run_id) for run_id in run_ids}

        def retry(conn: sa.Connection, batch: BatchEdit) -> Outcomes:
            return run_batches.retry_runs(conn, batch, retry=wish, keys=keys)

        async def single(actor: Actor, run_id: int) -> int:
            return await self._retry_one(actor, run_id, replace(wish, request_key=keys[run_id]))

        done = await self._bulk.edit(actor, run_ids, retry, single, bulk=bulk, behind=behind)
        self._announce()
        return done

    async def _edited(
        self,
        actor: Actor,
        work: Callable[[sa.Connection, RunEdit], T],
        *,
        run_ids: Sequence[int] = (),
    ) -> T:
        """Do the edit, with these ids and more if it has to write more runs."""
        edit = RunEdit(actor=actor, audit_id=await self._ids.take("audit"), configs=self._configs)
        return await self._ids.run_with_ids(
            "run", lambda more: self._store.run(work, replace(edit, run_ids=[*run_ids, *more]))
        )

    def _announce(self) -> None:
        for topic in (CANCEL, QUEUED, TRIGGERS, RUNS):
            self._events.publish(topic)


def _cancelling(asked: dict[str, Any], *, number: int | None = None) -> BulkAction:
    return BulkAction(action="runs.cancelled", detail=asked, number=number)


def _retrying(asked: dict[str, Any], *, number: int | None = None) -> BulkAction:
    return BulkAction(action="runs.retried", detail=asked, number=number)


def _retry(
    parameters: str | None,
    request_key: str | None,
    failed_shards_only: bool,
    revision: RetryRevision | None,
) -> Retry:
    """Refuse a retry once, not for every run."""
    check_request_key(request_key)
    return Retry(
        parameters=None if parameters is None else parse_parameters(parameters),
        request_key=request_key,
        failed_shards_only=failed_shards_only,
        revision=revision,
    )
