"""The audit: who did what and when, filtered, and exported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from tickwheel_admin.console.frame.local_time import instant_of, local_text
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.system import audit_labels
from tickwheel_admin.console.system.audit_details import facts_of
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.lists.paging import Page
from tickwheel_admin.services.system.audit import AuditItem, AuditQuery
from tickwheel_admin.services.system.audit_objects import MAX_CHARS as MAX_OBJECT_CHARS
from tickwheel_admin.services.system.audit_objects import read_object
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

PER_PAGE = 50
MAX_TEXT = 100

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilterForm:
    """The query of an address, and its fields as the form shows them."""

    query: AuditQuery
    from_local: str
    to_local: str

    @property
    def is_empty(self) -> bool:
        """Whether everything is shown."""
        return self.query == AuditQuery()

    @property
    def is_open(self) -> bool:
        """Whether one of the seldom filters is used."""
        return self.query.from_at is not None or self.query.to_at is not None


def audit_filter(values: Mapping[str, str]) -> AuditFilterForm:
    """The filter of an address; values that mean nothing are left out."""
    from_at = instant_of(values.get("from", ""))
    to_at = instant_of(values.get("to", ""))
    return AuditFilterForm(
        query=AuditQuery(
            person=values.get("person", "").strip()[:MAX_TEXT],
            action=values.get("action", "").strip()[:50],
            executor_id=whole_number(values.get("executor")),
            object=values.get("object", "").strip()[:MAX_OBJECT_CHARS],
            part_of=whole_number(values.get("part_of")),
            from_at=from_at,
            to_at=to_at,
        ),
        from_local=local_text(from_at),
        to_local=local_text(to_at),
    )


@routes.get("/audit", permission=Permission.ADMINISTER)
async def show_audit(request: web.Request) -> web.Response:
    actor = actor_of(request)
    set_locale(request)  # dates of the filter are in the reader's zone
    wanted = audit_filter(request.query)
    page: Page[AuditItem] = Page(items=[], next=None)
    problem = _problem_of(wanted.query)
    if problem is None:
        cursor = request.query.get("cursor")
        page = await request.app[SERVICES].audit.page(actor, wanted.query, cursor, PER_PAGE)
    executors = await request.app[SERVICES].executors.names(actor)
    names = {each.id: each.name for each in executors}
    choices = audit_labels.action_choices()
    if wanted.query.action not in dict(choices) and wanted.query.action:
        choices.append((wanted.query.action, audit_labels.action_text(wanted.query.action)))
    return await render(
        request,
        "system/audit.html",
        {
            "items": [(item, facts_of(item, names)) for item in page.items],
            "page": page,
            "wanted": wanted,
            "problem": problem,
            "actions": choices,
            "executors": [each for each in executors if actor.may(Permission.ADMINISTER, each.id)],
            "sees_all": actor.may(Permission.ADMINISTER),
        },
    )


def _problem_of(query: AuditQuery) -> Problem | None:
    """What is wrong with the object that somebody typed; it is said beside the field."""
    try:
        read_object(query.object)
    except InvalidInput as error:
        return error.problems[0]
    return None
