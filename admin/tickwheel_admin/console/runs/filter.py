"""The filter of the list of runs: from an address, back into fields, and in words.

An address says instants as UTC epoch ms and a job by its id, so that it means the same to whoever
gets it. What people fill in, local times and a job's name, is turned into such an address.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from tickwheel_admin.console.frame.formatting import instant
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.runs.labels import origins_name, state_name
from tickwheel_admin.domain.errors import NotFound
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.runs.service import ORIGINS, RunGroup, RunQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES

HOUR_MS = 3_600_000
LAST = {"1h": HOUR_MS, "6h": 6 * HOUR_MS, "24h": 24 * HOUR_MS, "7d": 7 * 24 * HOUR_MS}
MAX_NAME_CHARS = 100
MAX_TEXT_CHARS = 200
YES_NO = {"yes": True, "no": False}
MAX_AT = 2**47  # some thousand years ahead: what lies behind it is no instant

_STATES = frozenset((*RunState, *RunGroup))


def read_filter(values: Mapping[str, str]) -> RunQuery:
    """What an address or a form filters by.

    Values that mean nothing are left aside: a bookmark may be older than what it filters by.
    """
    state, origin = values.get("state", ""), values.get("origin", "")
    from_at, to_at = _instant(values.get("from")), _instant(values.get("to"))
    if from_at is None and to_at is None and (ago_ms := LAST.get(values.get("last", ""))):
        from_at = REQUEST_LOCALE.get().now_at - ago_ms
    return RunQuery(
        state=state if state in _STATES else None,
        retried=YES_NO.get(values.get("retried", "")),
        job_id=whole_number(values.get("job")),
        text=values.get("text", "").strip()[:MAX_TEXT_CHARS],
        owner=values.get("owner", "").strip()[:MAX_NAME_CHARS] or None,
        tags=tuple(tag for tag in values.get("tag", "").split(",") if tag),
        error=values.get("error", "").strip()[:MAX_TEXT_CHARS] or None,
        executor_id=whole_number(values.get("executor")),
        trigger_id=whole_number(values.get("trigger")),
        node_id=whole_number(values.get("node")),
        origin=origin if origin in ORIGINS else None,
        requested_by=values.get("by", "").strip()[:MAX_NAME_CHARS] or None,
        parent_run_id=whole_number(values.get("parent")),
        from_at=from_at,
        to_at=to_at,
    )


def fields_of(query: RunQuery) -> list[tuple[str, str]]:
    """Names and values of an address that filters so."""
    values = (
        ("state", query.state),
        ("retried", None if query.retried is None else "yes" if query.retried else "no"),
        ("job", query.job_id),
        ("text", query.text or None),
        ("owner", query.owner),
        ("tag", ",".join(query.tags) or None),
        ("error", query.error),
        ("executor", query.executor_id),
        ("trigger", query.trigger_id),
        ("node", query.node_id),
        ("origin", query.origin),
        ("by", query.requested_by),
        ("parent", query.parent_run_id),
        ("from", query.from_at),
        ("to", query.to_at),
    )
    return [(name, str(value)) for name, value in values if value is not None]


async def in_words(request: web.Request, query: RunQuery) -> list[tuple[str, str]]:
    """What is filtered by and how, for people."""
    words: list[tuple[str, str]] = []
    if query.state is not None:
        words.append((_("State"), group_name(query.state)))
    if query.retried is not None:
        words.append((_("Retried"), _("yes") if query.retried else _("no")))
    if query.job_id is not None:
        words.append((_("Job"), await _job_name(request, query.job_id)))
    if query.text:
        words.append((_("Part of the job’s name"), query.text))
    if query.owner is not None:
        words.append((_("Owner"), query.owner))
    words += [(_("Tag"), tag) for tag in query.tags]
    if query.error is not None:
        words.append((_("Part of the error"), query.error))
    if query.executor_id is not None:
        words.append((_("Executor"), await _executor_name(request, query.executor_id)))
    if query.trigger_id is not None:
        words.append((_("Trigger"), f"#{query.trigger_id}"))
    if query.node_id is not None:
        words.append((_("Node"), await node_name(request, query)))
    if query.origin is not None:
        words.append((_("Origin"), origins_name(query.origin)))
    if query.requested_by is not None:
        words.append((_("Requested by"), query.requested_by))
    if query.parent_run_id is not None:
        words.append((_("Asked for by run"), f"#{query.parent_run_id}"))
    if query.from_at is not None:
        words.append((_("From"), instant(query.from_at, "short")))
    if query.to_at is not None:
        words.append((_("Until"), instant(query.to_at, "short")))
    return words


def group_name(state: str) -> str:
    """The word for a state or a group of states."""
    groups: dict[str, str] = {
        RunGroup.ACTIVE: _("Active"),
        RunGroup.FAILED_ANY: _("Failed"),
        RunGroup.UNRESOLVED: _("Failed, not resolved"),
        RunGroup.RESOLVED: _("Resolved"),
    }
    return groups.get(state) or state_name(state)


async def node_name(request: web.Request, query: RunQuery) -> str:
    """The name of the node that is filtered by."""
    if query.executor_id is not None:
        for node_id, name in await nodes_of(request, query.executor_id):
            if node_id == query.node_id:
                return name
    return f"#{query.node_id}"


async def nodes_of(request: web.Request, executor_id: int) -> list[tuple[int, str]]:
    """Ids and names of an executor's nodes, live and lately ended; none of one that is not seen."""
    try:
        detail = await request.app[SERVICES].executors.get(actor_of(request), executor_id)
    except NotFound:
        return []
    return [(view.node.id, view.node.name) for view in detail.nodes]


def _instant(text: str | None) -> int | None:
    found = whole_number(text)
    return found if found is not None and found < MAX_AT else None


async def _job_name(request: web.Request, job_id: int) -> str:
    try:
        return (
            await request.app[SERVICES].jobs.get(actor_of(request), job_id)
        ).item.job.config.name
    except NotFound:
        return f"#{job_id}"


async def _executor_name(request: web.Request, executor_id: int) -> str:
    executors = await request.app[SERVICES].executors.names(actor_of(request))
    return next((e.name for e in executors if e.id == executor_id), f"#{executor_id}")
