"""The filter of the list of runs as people type it: names instead of ids, times of their own zone.

Instants in addresses carry their zone's offset, so that a link means the same to whoever gets it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from aiohttp import web

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.local_time import local_zone
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.lists.filter_box import FilterBox, FilterKey, FilterTerms
from tickwheel_admin.console.lists.job_names import JobNames
from tickwheel_admin.console.runs.filter import (
    MAX_AT,
    MAX_NAME_CHARS,
    MAX_TEXT_CHARS,
    YES_NO,
    group_name,
)
from tickwheel_admin.console.runs.labels import origins_name
from tickwheel_admin.console.runs.periods import PERIODS, period_name, period_of
from tickwheel_admin.domain.input.filter_text import MAX_CHARS, Term
from tickwheel_admin.domain.runs.error import alike
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.runs.service import ORIGINS, RunGroup, RunQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES

_STATES = (
    RunGroup.ACTIVE, RunGroup.FAILED_ANY, RunGroup.UNRESOLVED, RunGroup.RESOLVED, *RunState,
)  # fmt: skip
_KEYS = (
    "state", "retried", "job", "owner", "tag", "error", "executor", "node", "origin", "by", "last",
    "from", "to", "trigger", "parent",
)  # fmt: skip
_IDS = frozenset({"job", "executor", "node"})  # older addresses name these by their ids
_LOCAL = {"from_local": "from", "to_local": "to"}  # fields for a date and a time


async def read_run_text(request: web.Request) -> tuple[FilterTerms, RunQuery]:
    """What an address asks for, in text or by its older parameters."""
    typed = FilterTerms(
        request.query.get("q", "").strip()[:MAX_CHARS], _older(request.query), _KEYS
    )
    executors = {
        e.name: e.id for e in await request.app[SERVICES].executors.names(actor_of(request))
    }
    executor_id = _executor(typed, executors)
    job_id = await _job(request, typed)
    node_id = await _node(request, typed, executor_id)
    from_at, to_at = _instant(typed, "from"), _instant(typed, "to")
    last = typed.word("last", PERIODS)
    if last is not None and from_at is None and to_at is None:
        from_at, to_at = period_of(last)
    elif last is not None:
        typed.refuse("last", "filter.conflict", "Give either “last:”, or “from:” and “to:”.")
    query = RunQuery(
        state=typed.word("state", _STATES),
        retried=YES_NO.get(typed.word("retried", YES_NO) or ""),
        job_id=job_id,
        text=typed.words[:MAX_TEXT_CHARS],
        owner=typed.one("owner"),
        tags=typed.many("tag"),
        error=_error(typed),
        executor_id=executor_id,
        trigger_id=_number(typed, "trigger"),
        node_id=node_id,
        origin=typed.word("origin", ORIGINS),
        requested_by=(typed.one("by") or "")[:MAX_NAME_CHARS] or None,
        parent_run_id=_number(typed, "parent"),
        from_at=from_at,
        to_at=to_at,
    )
    return typed, query


def run_filter_box(typed: FilterTerms, *, me: str) -> FilterBox:
    """The box that shows a filter of runs.

    Args:
        me: the reader's name, to find what one has started oneself.
    """
    today = datetime.fromtimestamp(REQUEST_LOCALE.get().now_at / 1000, local_zone())
    example = f"{today:%Y-%m-%d}T09:00"
    return FilterBox(
        page="runs",
        text=typed.text,
        problems=typed.problems,
        keys=[
            FilterKey(
                key="state",
                what=_("How they stand or ended"),
                values=[(state.value, group_name(state)) for state in _STATES],
            ),
            FilterKey(
                key="retried",
                what=_("Whether a retry by hand does them again"),
                values=[("no", _("no")), ("yes", _("yes"))],
            ),
            FilterKey(key="job", what=_("Whose runs they are")),
            FilterKey(key="owner", what=_("Who answers for their job")),
            FilterKey(key="tag", what=_("What their job is marked with")),
            FilterKey(
                key="error",
                what=_("Part of the first line of their error"),
                example="timeout",
            ),
            FilterKey(key="executor", what=_("Where they run")),
            FilterKey(key="node", what=_("The process that ran them last")),
            FilterKey(
                key="origin",
                what=_("Why they exist"),
                values=[(origin, origins_name(origin)) for origin in ORIGINS],
            ),
            FilterKey(key="by", what=_("Who asked for them"), values=[(me, _("You"))]),
            FilterKey(
                key="last",
                what=_("Fired within"),
                values=[(period, period_name(period)) for period in PERIODS],
            ),
            FilterKey(key="from", what=_("Fired from"), example=example),
            FilterKey(key="to", what=_("Fired before"), example=example),
            FilterKey(key="trigger", what=_("The number of a trigger"), example="12"),
            FilterKey(key="parent", what=_("The number of the run before them"), example="482241"),
        ],
    )


def _older(values: Mapping[str, str]) -> dict[str, str]:
    """Terms that addresses of before, and links of other pages, say by parameters.

    Values that mean nothing are left aside: a bookmark may be older than what it filters by.
    """
    older = {key: values.get(key, "").strip() for key in _KEYS}
    if older["state"] not in _STATES:
        older["state"] = ""
    if older["retried"] not in YES_NO:
        older["retried"] = ""
    if older["origin"] not in ORIGINS:
        older["origin"] = ""
    for key in _IDS:
        older[key] = f"#{older[key]}" if whole_number(older[key]) is not None else ""
    for key in ("trigger", "parent"):
        if whole_number(older[key]) is None:
            older[key] = ""
    if name := values.get("job_name", "").strip():
        older["job"] = name
    for field, key in _LOCAL.items():
        older[key] = values.get(field, "").strip() or older[key]
        if _instant_in(older[key]) is None:
            older[key] = ""
    if older["from"] or older["to"] or older["last"] not in PERIODS:
        older["last"] = ""
    return older


async def _job(request: web.Request, typed: FilterTerms) -> int | None:
    """The job that is named by its key; the term then says it in full."""
    name = typed.one("job")
    if not name:
        return None
    names = JobNames(request.app[SERVICES], actor_of(request))
    found = await names.ids_of(name)
    said = await names.text_of_id(found[0]) if len(found) == 1 else name
    _say(typed, "job", said)
    if len(found) == 1:
        return found[0]
    if found:
        typed.refuse(
            "job",
            "filter.unclear_job",
            "Several executors have a job of the name “%(name)s”. Say which by"
            ' job:"executor / name".',
            name=name,
        )
    else:
        typed.unknown("job", name, ())
    return None


def _error(typed: FilterTerms) -> str | None:
    """Part of an error; the term then says it with a sign for what differs each time."""
    part = alike((typed.one("error") or "")[:MAX_TEXT_CHARS])
    if part:
        _say(typed, "error", part)
    return part or None


def _executor(typed: FilterTerms, executors: Mapping[str, int]) -> int | None:
    name = typed.one("executor")
    if name is None:
        return None
    found = whole_number(name.removeprefix("#")) if name.startswith("#") else executors.get(name)
    known = next((known for known, id_ in executors.items() if id_ == found), None)
    if found is None:
        typed.unknown("executor", name, executors)
    elif known is not None:
        _say(typed, "executor", known)
    return found


async def _node(request: web.Request, typed: FilterTerms, executor_id: int | None) -> int | None:
    name = typed.one("node")
    if name is None:
        return None
    if name.startswith("#") and (node_id := whole_number(name[1:])) is not None:
        return node_id
    found = await request.app[SERVICES].suggestions.nodes_named(
        actor_of(request), name, executor_id
    )
    if not found:
        typed.unknown("node", name, ())
        return None
    return found[0].id


def _number(typed: FilterTerms, key: str) -> int | None:
    text = typed.one(key)
    if text is None:
        return None
    found = whole_number(text.removeprefix("#"))
    if found is None:
        typed.refuse(key, "filter.no_number", "“%(key)s:” takes a number.", key=key)
    return found


def _instant(typed: FilterTerms, key: str) -> int | None:
    text = typed.one(key)
    if text is None:
        return None
    found = _instant_in(text)
    if found is None:
        typed.refuse(
            key,
            "filter.no_instant",
            "“%(key)s:” takes a date, or a date and a time such as 2026-11-20T09:00.",
            key=key,
        )
    else:
        _say(typed, key, said_instant(found))
    return found


def _instant_in(text: str) -> int | None:
    """UTC epoch ms of an instant with its offset, of a local date and time, or of the number."""
    if (number := whole_number(text)) is not None and len(text) >= 9:
        return number if number < MAX_AT else None
    try:
        at = datetime.fromisoformat(text)
        local = at if at.tzinfo is not None else at.replace(tzinfo=local_zone())
        return round(local.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def said_instant(at: int) -> str:
    """An instant as addresses say it: local, with the offset of its zone."""
    local = datetime.fromtimestamp(at / 1000, local_zone())
    precision = "minutes" if at % 60_000 == 0 else "seconds" if at % 1_000 == 0 else "milliseconds"
    return local.isoformat(timespec=precision)


def _say(
    typed: FilterTerms, key: str, value: str, *, instead_of: Collection[str | None] = ()
) -> None:
    """Let a term say its value as others will read it, in the place of the first of these."""
    former = instead_of or (key,)
    place = next((n for n, term in enumerate(typed.terms) if term.key in former), 0)
    kept = [term for term in typed.terms if term.key not in former]
    typed.terms = [*kept[:place], Term(key, value), *kept[place:]]
