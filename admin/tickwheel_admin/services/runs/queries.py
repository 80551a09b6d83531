"""Which runs people ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.runs.error import alike
from tickwheel_admin.domain.runs.run import FAILURES, FINAL, Origin, RunState
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.lists.paging import Number, Page, encode_cursor
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.store.executors.executors import get_node
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.jobs.filters import JobFilter, job_ids
from tickwheel_admin.store.runs.errors import find_errors
from tickwheel_admin.store.runs.lists import RunItem
from tickwheel_admin.store.runs.pages import RunFilter, RunPosition

MAX_COUNTED = 10_000
HOUR_MS = 3_600_000


class RunGroup(StrEnum):
    """States that people ask for together."""

    FAILED_ANY = "failed_any"  # failed, timed out or lost: what can be retried
    UNRESOLVED = "unresolved"  # of these, those whose work no retry by hand has done since
    RESOLVED = "resolved"  # and those whose work one did
    ACTIVE = "active"  # queued, dispatched or running


NO_STEP = "no_step"  # all but steps of workflows, whose own runs are listed
ORIGINS = (*(origin.value for origin in Origin), NO_STEP)  # what people ask for
_STATES = {
    RunGroup.FAILED_ANY: FAILURES,
    RunGroup.UNRESOLVED: FAILURES,
    RunGroup.RESOLVED: FAILURES,
    RunGroup.ACTIVE: frozenset(RunState) - FINAL,
}
_MADE_GOOD: dict[str, bool] = {RunGroup.UNRESOLVED: False, RunGroup.RESOLVED: True}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs a list shows; shards are shown with their whole fire only.

    With a node, what it ran is shown, and with an error what failed with it: shards one by one.
    """

    state: str | None = None  # one of RunState or of RunGroup
    retried: bool | None = None  # whether a retry by hand does them again; None: either
    job_id: int | None = None
    text: str = ""  # part of the name of their job, in any case
    owner: str | None = None  # of their job, the whole name
    tags: tuple[str, ...] = ()  # their job has all of them
    error: str | None = None  # part of the first line of their error, in any case
    executor_id: int | None = None
    trigger_id: int | None = None
    node_id: int | None = None  # of the last attempt
    origin: str | None = None  # one of ORIGINS
    requested_by: str | None = None  # the whole name of a person
    parent_run_id: int | None = None  # the run whose end asked for them
    from_at: int | None = None  # scheduled at or after
    to_at: int | None = None  # scheduled before


class Matching(NamedTuple):
    """How many runs match, for questions such as “Cancel 214 runs?”."""

    runs: int
    capped: bool  # there may be more: nobody looked further


class RunPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in the list of runs, where one of its pages begins or ends."""

    scheduled_at: Number
    id: Number
    newer: bool = False  # the page before this run, and not the one behind it

    @property
    def position(self) -> RunPosition:
        return RunPosition(scheduled_at=self.scheduled_at, id=self.id)


def page_at(
    items: Sequence[RunItem], at: RunPlace | None, more_at: RunPosition | None
) -> Page[RunItem]:
    """The page, with where the list goes on in both directions.

    Args:
        at: where reading began, and its direction; None: at the newest run.
        more_at: where it would go on; None: nowhere.
    """
    is_newer = at is not None and at.newer
    ahead = None if more_at is None else _cursor(more_at, newer=is_newer)
    behind = None
    if items and at is not None:
        first = items[-1 if is_newer else 0].run
        position = RunPosition(scheduled_at=first.scheduled_at, id=first.id)
        behind = _cursor(position, newer=not is_newer)
    return Page(
        items=list(items),
        next=behind if is_newer else ahead,
        previous=ahead if is_newer else behind,
    )


def _cursor(position: RunPosition, *, newer: bool) -> str:
    return encode_cursor(RunPlace(scheduled_at=position.scheduled_at, id=position.id, newer=newer))


def states_of(state: str | None) -> frozenset[RunState] | None:
    """The states that a word means; None for no word.

    Raises:
        InvalidInput: no such word.
    """
    if state is None:
        return None
    if state in set(RunGroup):
        return _STATES[RunGroup(state)]
    if state in set(RunState):
        return frozenset({RunState(state)})
    raise InvalidInput.one(
        "state",
        "not_one_of",
        "This must be one of %(choices)s.",
        choices=", ".join((*RunState, *RunGroup)),
    )


def origin_of(origin: str | None) -> Origin | None:
    """The origin that a word means; None for no word, and for one that means several.

    Raises:
        InvalidInput: no such word.
    """
    if origin is None or origin in ORIGINS:
        return None if origin is None or origin == NO_STEP else Origin(origin)
    raise InvalidInput.one(
        "origin", "not_one_of", "This must be one of %(choices)s.", choices=", ".join(ORIGINS)
    )


def filter_of(actor: Actor, query: RunQuery) -> RunFilter:
    """What the query means to this caller.

    Raises:
        InvalidInput: a word that means nothing.
    """
    return RunFilter(
        states=states_of(query.state),
        retried=query.retried,
        made_good=_MADE_GOOD.get(query.state or ""),
        job_id=query.job_id,
        executors=visible_executors(actor, query.executor_id),
        trigger_id=query.trigger_id,
        node_id=query.node_id,
        origin=origin_of(query.origin),
        without_steps=query.origin == NO_STEP,
        requested_by=query.requested_by,
        parent_run_id=query.parent_run_id,
        from_at=query.from_at,
        to_at=query.to_at,
    )


def narrow(
    conn: sa.Connection, wanted: RunFilter, query: RunQuery | None = None
) -> RunFilter | None:
    """The same runs, in less to look through; None: there are none.

    Args:
        query: what it asks of their jobs and errors is looked up; only of jobs that are not
            deleted, and of the newest kinds of errors.
    """
    if wanted.job_id is not None and wanted.executors is not None:
        # All runs of a job are of one executor: either all of them are shown or none.
        if store_jobs.executor_of_job(conn, wanted.job_id) not in wanted.executors:
            return None
        wanted = replace(wanted, executors=None)
    errors = None
    if query is not None and query.error is not None and (part := alike(query.error)):
        errors = find_errors(conn, part, executors=wanted.executors)
        if not errors:
            return None
    if query is not None and (query.text or query.owner is not None or query.tags):
        about = JobFilter(
            name_part=query.text, executors=wanted.executors, owner=query.owner, tags=query.tags
        )
        jobs = job_ids(conn, about)
        if wanted.job_id is not None:
            jobs &= {wanted.job_id}
        if not jobs:
            return None
        # Their executors are those that were asked for.
        wanted = replace(wanted, job_id=None, jobs=jobs, executors=None)
    if errors is not None:
        wanted = replace(wanted, errors=errors, executors=None)  # each is of one executor
    if wanted.node_id is not None:
        found = get_node(conn, wanted.node_id)
        if found is not None and found.node.ended_at is not None:
            # What it ran was due before it ended; an hour for clocks that were set back.
            until = found.node.ended_at + HOUR_MS
            to_at = until if wanted.to_at is None else min(wanted.to_at, until)
            wanted = replace(wanted, to_at=to_at)
    return wanted
