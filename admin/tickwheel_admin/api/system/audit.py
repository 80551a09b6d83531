"""/api/v1/audit"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import PageJson, answer, instant, page_view
from tickwheel_admin.api.inputs import PAGING, page_of, query_fields
from tickwheel_admin.api.system.shapes import AuditJson
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.system.audit import MAX_TEXT_CHARS, AuditItem, AuditQuery
from tickwheel_admin.services.system.audit_objects import MAX_CHARS as MAX_OBJECT_CHARS
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import instant as instant_input
from tickwheel_admin.web.input_fields import optional_id, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_USER = text("user", "The whole name of a user.", max_chars=MAX_TEXT_CHARS)
_ACTION = text("action", "A whole action, or its beginning: `job.`.", max_chars=50)
_EXECUTOR = optional_id("executor_id", "Entries about this executor.")
_OBJECT_ID = optional_id("object_id", "Entries about the object with this id.")
_OBJECT = text(
    "object",
    "Entries about an object by its name, also a deleted one: `job:NAME`, `run:NUMBER`,"
    " `executor:NAME`, `node:NAME`, `calendar:NAME` or `user:NAME`.",
    max_chars=MAX_OBJECT_CHARS,
)
_PART_OF = optional_id("part_of", "The changes of this bulk action.")
_FROM = instant_input("from", "Entries from this instant on.")
_TO = instant_input("to", "Entries before this instant.")
_FILTER = (_USER, _ACTION, _EXECUTOR, _OBJECT_ID, _OBJECT, _PART_OF, _FROM, _TO)


@routes.get(
    "/api/v1/audit",
    permission=Permission.ADMINISTER,
    api=True,
    query=(*_FILTER, *PAGING),
    answers=PageJson[AuditJson],
)
async def list_audit(request: web.Request) -> web.Response:
    """Who changed what, newest first."""
    fields = query_fields(request)
    query = AuditQuery(
        person=_USER.of(fields),
        action=_ACTION.of(fields),
        executor_id=_EXECUTOR.of(fields),
        object_id=_OBJECT_ID.of(fields),
        object=_OBJECT.of(fields),
        part_of=_PART_OF.of(fields),
        from_at=_FROM.of(fields),
        to_at=_TO.of(fields),
    )
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].audit.page(actor_of(request), query, cursor, limit)
    return answer(page_view(page, _audit_view))


def _audit_view(item: AuditItem) -> AuditJson:
    return {
        "id": item.id,
        "at": instant(item.at),
        "user_name": item.user_name,
        "address": item.address,
        "action": item.action,
        "executor_id": item.executor_id,
        "executor_name": item.executor_name,
        "object_id": item.object_id,
        "job_name": item.job_name,
        "detail": item.detail,
        "part_of": item.part_of or None,
        "parts": [
            {"id": part.id, "object_id": part.object_id, "job_name": part.job_name}
            for part in item.parts
        ],
    }
