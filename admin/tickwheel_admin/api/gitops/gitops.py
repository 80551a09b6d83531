"""/api/v1/plan and /api/v1/apply: documents as the state that is wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from aiohttp import web
from msgspec import Meta

from tickwheel_admin.api.answers import ProblemJson, answer
from tickwheel_admin.api.gitops.shapes import ObjectChangeJson, ObjectPlanJson
from tickwheel_admin.api.inputs import query_fields
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.gitops.envelopes import MAX_DOCUMENTS
from tickwheel_admin.services.gitops.export import ExportChoice
from tickwheel_admin.services.gitops.objects import (
    ChangeAction,
    ObjectChange,
    ObjectPlan,
    ObjectType,
)
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.errors import problem_view
from tickwheel_admin.web.i18n import language_of
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import (
    InputField,
    boolean,
    given,
    names_of,
    optional_member,
    text,
)
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

MAX_BYTES = 16 * 2**20  # of a request with documents
MAX_OWNER_CHARS = 100
_DOCUMENTS = given(
    "documents",
    "The objects as files have them; 16 MiB together.",
    Annotated[list[dict[str, Any]], Meta(max_length=MAX_DOCUMENTS)],
    required=True,
)
_OWNER = given(
    "owner",
    "The label of what is applied; null: none.",
    Annotated[str, Meta(max_length=MAX_OWNER_CHARS)],
)
_PRUNE = boolean("prune", "Also delete what has the label and no document.")
_TAKE_OVER = boolean("take_over", "Also change what has the label of another owner.")
_WISH = (_DOCUMENTS, _OWNER, _PRUNE, _TAKE_OVER)
_FINGERPRINT = text("fingerprint", "That of a plan.", max_chars=100, required=True)
_EXECUTOR = text("executor", "Only this one and what belongs to it.", max_chars=200)
_TYPE = optional_member("type", "Only objects of this type.", ObjectType)
_LABEL = text("owner", "Only what has the label of this owner.", max_chars=MAX_OWNER_CHARS)
_CHOICE = (_EXECUTOR, _TYPE, _LABEL)


@routes.post(
    "/api/v1/plan", permission=Permission.VIEW, api=True, body=_WISH, answers=ObjectPlanJson
)
async def plan(request: web.Request) -> web.Response:
    """What would become of the objects of some documents; nothing is written."""
    fields, wish = await _wish_of(request, _WISH)
    raise_if_any(fields.problems)
    found = await request.app[SERVICES].gitops.plan(actor_of(request), **wish)
    return answer(plan_view(found, language_of(request)))


@routes.post(
    "/api/v1/apply",
    permission=Permission.VIEW,
    api=True,
    body=(*_WISH, _FINGERPRINT),
    answers=ObjectPlanJson,
    conflicts=("gitops.plan_changed",),
)
async def apply(request: web.Request) -> web.Response:
    """Make all of a plan's changes, or none; each needs its own permission."""
    fields, wish = await _wish_of(request, (*_WISH, _FINGERPRINT))
    fingerprint = _FINGERPRINT.of(fields)
    raise_if_any(fields.problems)
    done = await request.app[SERVICES].gitops.apply(
        actor_of(request), fingerprint=fingerprint, **wish
    )
    return answer(plan_view(done, language_of(request)))


@routes.get(
    "/api/v1/export",
    permission=Permission.VIEW,
    api=True,
    query=_CHOICE,
    answers=str,
    media_types=("application/x-ndjson",),
)
async def export(request: web.Request) -> web.StreamResponse:
    """What is stored, as documents, one on each line."""
    fields = query_fields(request)
    kind = _TYPE.of(fields)
    choice = ExportChoice(
        executor=_EXECUTOR.of(fields) or None,
        types=list(ObjectType) if kind is None else [kind],
        owner=_LABEL.of(fields) or None,
    )
    raise_if_any(fields.problems)
    parts = request.app[SERVICES].gitops.export(actor_of(request), choice)
    first: Sequence[Mapping[str, Any]] = await anext(parts, [])
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    await response.write(_lines(first))
    async for part in parts:
        await response.write(_lines(part))
    await response.write_eof()
    return response


def _lines(documents: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(
        json.dumps(each, ensure_ascii=False, allow_nan=False) + "\n" for each in documents
    ).encode()


async def _wish_of(
    request: web.Request, known: Sequence[InputField[Any]]
) -> tuple[Fields, dict[str, Any]]:
    """The fields of the body, and what they say of the documents."""
    try:
        body = await read_json(request, most=MAX_BYTES)
    except web.HTTPRequestEntityTooLarge:
        raise InvalidInput.one(
            "documents",
            "too_large",
            "Together, documents may be up to %(limit)s MiB; divide the directory.",
            limit=MAX_BYTES // 2**20,
        ) from None
    fields = Fields(body, "", [])
    fields.only(names_of(known))
    documents = fields.raw.get("documents")
    if not isinstance(documents, list):
        fields.refuse("documents", "required", "This must be a list of objects.")
    return fields, {
        "documents": documents,
        "owner": fields.text("owner", max_chars=MAX_OWNER_CHARS, is_name=True) or None,
        "prune": _PRUNE.of(fields),
        "take_over": _TAKE_OVER.of(fields),
    }


def plan_view(plan: ObjectPlan, language: str) -> ObjectPlanJson:
    return {
        "owner": plan.owner,
        "changes": [_change_view(each) for each in plan.changes],
        "counts": {
            **{
                action.value: sum(each.action is action for each in plan.changes)
                for action in ChangeAction
            },
            ChangeAction.UNCHANGED.value: plan.unchanged,
        },
        "checked": plan.is_checked,
        "allowed": plan.is_allowed,
        "problems": [cast("ProblemJson", problem_view(each, language)) for each in plan.problems],
        "fingerprint": None if plan.problems else plan.fingerprint,
    }


def _change_view(change: ObjectChange) -> ObjectChangeJson:
    return {
        "action": change.action,
        "type": change.key.type,
        "executor": change.key.executor or None,
        "name": change.key.name,
        "id": None if change.stored is None else change.stored.id,
        "document": change.place,
        "owner": change.owner,
        "drift": change.is_drift,
        "allowed": change.is_allowed,
        "differences": [
            {"field": name, "before": before, "after": after}
            for name, (before, after) in change.differences.items()
        ],
    }
