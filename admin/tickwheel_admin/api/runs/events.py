"""/api/v1/events"""

from __future__ import annotations

from typing import Annotated

from aiohttp import web
from msgspec import Meta

from tickwheel_admin.api.inputs import query_fields
from tickwheel_admin.api.runs.event_stream import EVENT_STREAM, stream
from tickwheel_admin.api.runs.shapes import RunEventJson
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.runs.events import EventState
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.runs.events import EventFilter
from tickwheel_admin.web.input_fields import MAX_ID, given, optional_id, optional_integer, text
from tickwheel_admin.web.routes import Routes

routes = Routes()

_EXECUTOR = optional_id("executor_id", "Of runs of this executor's jobs.")
_JOB = optional_id("job_id", "Of runs of this job.")
_STATE = text("state", "That lead to one of these states, between commas.", max_chars=200)
_AFTER = optional_integer(
    "after",
    "Events after this `seq`; without it, only those to come. `Last-Event-ID` goes before it.",
    low=0,
    high=MAX_ID,
)
_LAST = given(
    "Last-Event-ID",
    "The `id` of the last event that was read.",
    Annotated[str, Meta(pattern="^[0-9]{1,16}$")],
)


@routes.get(
    "/api/v1/events",
    permission=Permission.VIEW,
    api=True,
    query=(_EXECUTOR, _JOB, _STATE, _AFTER),
    headers=(_LAST,),
    answers=RunEventJson,
    media_types=(EVENT_STREAM,),
    gone=("events.gone",),
)
async def stream_events(request: web.Request) -> web.StreamResponse:
    """Each change of a run's state, as it happens: a stream of server-sent events."""
    fields = query_fields(request)
    wanted = EventFilter(
        executor_id=_EXECUTOR.of(fields), job_id=_JOB.of(fields), states=_states_of(fields)
    )
    after = _AFTER.of(fields)
    raise_if_any(fields.problems)
    return await stream(request, wanted, _last_id(request, after))


def _states_of(fields: Fields) -> frozenset[str] | None:
    given_states = [each.strip() for each in _STATE.of(fields).split(",") if each.strip()]
    known = {state.value for state in EventState}
    if not known.issuperset(given_states):
        choices = ", ".join(sorted(known))
        fields.refuse("state", "not_one_of", "This must be one of %(choices)s.", choices=choices)
    return frozenset(given_states) or None


def _last_id(request: web.Request, after: int | None) -> int | None:
    """A client that comes back by itself asks with the address of its first request."""
    last = request.headers.get("Last-Event-ID", "")
    if not last:
        return after
    if not (last.isascii() and last.isdigit()) or len(last) > 16:
        raise InvalidInput.one(
            "Last-Event-ID", "last_event_id.invalid", "Send the id of an event, as it came."
        )
    return int(last)
