"""How requests say which jobs they mean: the same fields for lists, counts and bulk changes."""

from __future__ import annotations

from typing import Any

from tickwheel_admin.api.inputs import MAX_TEXT_CHARS, tags
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.services.jobs.service import JobQuery
from tickwheel_admin.web.input_fields import InputField, choice, optional_id, text

VIEWS = ("all", "failing", "running", "paused", "active")
SORTS = ("name", "-name", "-changed", "next_fire", "-duration", "-failure_rate")
_MAX_CHARS = 1_000

_TEXT = text("text", "A part of a name, handler, owner or tag, in any case.", max_chars=_MAX_CHARS)
_EXECUTOR = optional_id("executor_id", "Jobs of this executor.")
_OWNER = text("owner", "The whole name of the owner.", max_chars=_MAX_CHARS)
_HANDLER = text("handler", "The whole name of the handler.", max_chars=_MAX_CHARS)
_VIEW = choice("view", "Jobs of which this is true.", of=VIEWS, default="all")
_TAGS = tags(in_body=True)
SORT = choice(
    "sort",
    "The order; `-changed`: the last changed first, `next_fire`: the next to fire first, then those"
    " without one, `-duration` and `-failure_rate`: the longest or most failing in their last 24"
    " runs, as counted a few minutes ago.",
    of=SORTS,
    default="name",
)


def _filter(*, in_body: bool) -> tuple[InputField[Any], ...]:
    return (_TEXT, _EXECUTOR, _OWNER, tags(in_body=in_body), _HANDLER, _VIEW)


FILTER = _filter(in_body=False)
FILTER_IN_BODY = _filter(in_body=True)


def job_query_of(fields: Fields, *, sort: bool = False) -> JobQuery:
    """The filter that the fields make up; problems are noted in them.

    Args:
        sort: the fields may say an order as well.
    """
    return JobQuery(
        text=_TEXT.of(fields)[:MAX_TEXT_CHARS],
        executor_id=_EXECUTOR.of(fields),
        owner=_OWNER.of(fields) or None,
        tags=_TAGS.of(fields),
        handler=_HANDLER.of(fields) or None,
        view=_VIEW.of(fields),
        sort=SORT.of(fields) if sort else "name",
    )
