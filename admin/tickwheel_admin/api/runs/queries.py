"""How requests say which runs they mean: the same fields for lists, counts and bulk changes."""

from __future__ import annotations

from tickwheel_admin.api.inputs import MAX_TEXT_CHARS, optional_id, tags_in, text_in
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.services.runs.service import RetryRevision, RunGroup, RunQuery

FILTER = (
    "state",
    "retried",
    "job_id",
    "text",
    "owner",
    "tag",
    "error",
    "executor_id",
    "trigger_id",
    "node_id",
    "origin",
    "requested_by",
    "parent_run_id",
    "from_at",
    "to_at",
)
STATES = (*(state.value for state in RunState), *(group.value for group in RunGroup))
ORIGINS = tuple(origin.value for origin in Origin)
MAX_NAME_CHARS = 100
_YES_NO = {"yes": True, "no": False}


def run_query_of(fields: Fields) -> RunQuery:
    """The filter that the fields make up; problems are noted in them."""
    return RunQuery(
        state=fields.choice("state", STATES, default="") or None,
        retried=_YES_NO.get(fields.choice("retried", ("", *_YES_NO), default="")),
        job_id=optional_id(fields, "job_id"),
        text=text_in(fields, "text")[:MAX_TEXT_CHARS],
        owner=text_in(fields, "owner") or None,
        tags=tags_in(fields),
        error=text_in(fields, "error")[:MAX_TEXT_CHARS].strip() or None,
        executor_id=optional_id(fields, "executor_id"),
        trigger_id=optional_id(fields, "trigger_id"),
        node_id=optional_id(fields, "node_id"),
        origin=fields.choice("origin", ORIGINS, default="") or None,
        requested_by=_name_in(fields),
        parent_run_id=optional_id(fields, "parent_run_id"),
        from_at=fields.instant("from_at"),
        to_at=fields.instant("to_at"),
    )


def revision_of(fields: Fields) -> RetryRevision:
    """The revision of the job that retries are asked to be made with."""
    return fields.member("revision", RetryRevision, default=RetryRevision.CURRENT)


def _name_in(fields: Fields) -> str | None:
    if type(fields.raw.get("requested_by")) is int:
        return str(fields.raw["requested_by"])  # a name that is all digits, in an address
    return fields.text("requested_by", max_chars=MAX_NAME_CHARS) or None
