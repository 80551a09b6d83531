"""/api/v1/attention: what somebody should look at."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.overview.attention.service import Concern
from tickwheel_admin.web.i18n import language_of, translate
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.get("/api/v1/attention", permission=Permission.VIEW, api=True)
async def list_concerns(request: web.Request) -> web.Response:
    looked = await request.app[SERVICES].attention.look(actor_of(request))
    language = language_of(request)
    return answer(
        {
            "items": [_concern_view(each, language) for each in looked.concerns],
            "looked_at": instant(looked.at),
            "runs_since": instant(looked.since),
            "succeeded": looked.succeeded,
            "failed": looked.failed,
        }
    )


def _concern_view(concern: Concern, language: str) -> dict[str, Any]:
    why = concern.why
    return {
        "kind": concern.kind.value,
        "severity": concern.severity.value,
        "message": translate(concern.template, concern.params, language),
        "since": instant(concern.since),
        "last_at": instant(concern.last_at),
        "executor_id": concern.executor_id,
        "executor_name": concern.executor_name,
        "job_id": concern.job_id,
        "job_name": concern.job_name,
        "run_id": concern.run_id,
        "trigger_id": concern.trigger_id,
        "admin_id": concern.admin_id,
        "admin_name": concern.admin_name,
        "waiting_for": None if why is None else why.code,
        "why": None if why is None else translate(why.template, why.params, language),
    }
