"""How requests say which jobs they mean: the same fields for lists, counts and bulk changes."""

from __future__ import annotations

from tickwheel_admin.api.inputs import MAX_TEXT_CHARS, optional_id, tags_in, text_in
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.services.jobs.service import JobQuery

FILTER = ("text", "executor_id", "owner", "tag", "handler", "view")
VIEWS = ("all", "failing", "running", "paused", "active")
SORTS = ("name", "-name", "-changed", "next_fire", "-duration", "-failure_rate")


def job_query_of(fields: Fields, *, sort: bool = False) -> JobQuery:
    """The filter that the fields make up; problems are noted in them.

    Args:
        sort: the fields may say an order as well.
    """
    return JobQuery(
        text=text_in(fields, "text")[:MAX_TEXT_CHARS],
        executor_id=optional_id(fields, "executor_id"),
        owner=text_in(fields, "owner") or None,
        tags=tags_in(fields),
        handler=text_in(fields, "handler") or None,
        view=fields.choice("view", VIEWS, default="all"),
        sort=fields.choice("sort", SORTS, default="name") if sort else "name",
    )
