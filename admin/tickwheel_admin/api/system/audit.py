"""/api/v1/audit"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant, page_view
from tickwheel_admin.api.inputs import optional_id, page_of, query_fields
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.system.audit import MAX_TEXT_CHARS, AuditItem, AuditQuery
from tickwheel_admin.services.system.audit_objects import MAX_CHARS as MAX_OBJECT_CHARS
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_FILTER = ("user", "action", "executor_id", "object_id", "object", "part_of", "from", "to")


@routes.get("/api/v1/audit", permission=Permission.ADMINISTER, api=True)
async def list_audit(request: web.Request) -> web.Response:
    fields = query_fields(request, (*_FILTER, "cursor", "limit"))
    as_text = Fields(request.query, "", fields.problems)  # also a name that is all digits
    query = AuditQuery(
        person=as_text.text("user", max_chars=MAX_TEXT_CHARS),
        action=fields.text("action", max_chars=50),
        executor_id=optional_id(fields, "executor_id"),
        object_id=optional_id(fields, "object_id"),
        object=as_text.text("object", max_chars=MAX_OBJECT_CHARS),
        part_of=optional_id(fields, "part_of"),
        from_at=fields.instant("from"),
        to_at=fields.instant("to"),
    )
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].audit.page(actor_of(request), query, cursor, limit)
    return answer(page_view(page, _audit_view))


def _audit_view(item: AuditItem) -> dict[str, Any]:
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
