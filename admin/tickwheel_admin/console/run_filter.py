"""The filter of the list of runs: from an address, back into fields, and in words."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from tickwheel_admin.console.i18n import gettext as _
from tickwheel_admin.console.labels import state_name
from tickwheel_admin.console.reader import instant
from tickwheel_admin.domain.errors import NotFound
from tickwheel_admin.domain.run import RunState
from tickwheel_admin.services.runs import RunGroup, RunQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import EXECUTORS, JOBS

_STATES = frozenset((*RunState, *RunGroup))


def read_filter(values: Mapping[str, str]) -> RunQuery:
    """What an address or a form filters by.

    Values that mean nothing are left aside: a bookmark may be older than what it filters by.
    """
    state = values.get("state", "")
    return RunQuery(
        state=state if state in _STATES else None,
        job_id=whole_number(values.get("job")),
        executor_id=whole_number(values.get("executor")),
        from_at=whole_number(values.get("from")),
        to_at=whole_number(values.get("to")),
    )


def fields_of(query: RunQuery) -> list[tuple[str, str]]:
    """Names and values of an address that filters so."""
    values = (
        ("state", query.state),
        ("job", query.job_id),
        ("executor", query.executor_id),
        ("from", query.from_at),
        ("to", query.to_at),
    )
    return [(name, str(value)) for name, value in values if value is not None]


async def in_words(request: web.Request, query: RunQuery) -> list[tuple[str, str]]:
    """What is filtered by and how, for people."""
    words: list[tuple[str, str]] = []
    if query.state is not None:
        words.append((_("State"), group_name(query.state)))
    if query.job_id is not None:
        words.append((_("Job"), await _job_name(request, query.job_id)))
    if query.executor_id is not None:
        words.append((_("Executor"), await _executor_name(request, query.executor_id)))
    if query.from_at is not None:
        words.append((_("From"), instant(query.from_at, "short")))
    if query.to_at is not None:
        words.append((_("Until"), instant(query.to_at, "short")))
    return words


def group_name(state: str) -> str:
    """The word for a state or a group of states."""
    groups = {RunGroup.ACTIVE.value: _("Active"), RunGroup.FAILED_ANY.value: _("Failed")}
    return groups.get(state) or state_name(state)


def whole_number(text: str | None) -> int | None:
    """A whole number from an address; None also for what is none."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 15 else None


async def _job_name(request: web.Request, job_id: int) -> str:
    try:
        return (await request.app[JOBS].get(actor_of(request), job_id)).item.job.config.name
    except NotFound:
        return f"#{job_id}"


async def _executor_name(request: web.Request, executor_id: int) -> str:
    executors = await request.app[EXECUTORS].list(actor_of(request))
    return next((e.name for e in executors if e.id == executor_id), f"#{executor_id}")
