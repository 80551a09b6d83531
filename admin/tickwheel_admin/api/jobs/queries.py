"""How requests say which jobs they mean: the same fields for lists, counts and bulk changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwheel_admin.api.inputs import optional_id
from tickwheel_admin.domain.input.fields import Fields
from tickwheel_admin.services.jobs.service import JobQuery

FILTER = ("text", "executor_id", "owner", "tag", "handler", "view")
VIEWS = ("all", "failing", "running", "paused", "active")
SORTS = ("name", "-name", "-changed", "next_fire", "-duration", "-failure_rate")
MAX_TEXT_CHARS = 200


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


def tags_in(fields: Fields) -> tuple[str, ...]:
    """One tag, or several: in an address with commas between them, in a body as a list."""
    value: Any = fields.raw.get("tag")
    if isinstance(value, Sequence) and not isinstance(value, str):
        if all(isinstance(each, str) for each in value):
            return tuple(dict.fromkeys(each for each in value if each))
        fields.refuse("tag", "wrong_type", "This must be a list of texts.")
        return ()
    return tuple(dict.fromkeys(tag for tag in text_in(fields, "tag").split(",") if tag))


def text_in(fields: Fields, name: str) -> str:
    """A text, also one that is all digits in an address."""
    if type(fields.raw.get(name)) is int:
        return str(fields.raw[name])  # a text that is all digits, in an address
    return fields.text(name, max_chars=1_000)
