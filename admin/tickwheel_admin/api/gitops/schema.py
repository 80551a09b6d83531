"""/api/v1/document-schema: the JSON Schema of documents, for editors; made of their types."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from tickwheel_admin.api.answers import Json, answer
from tickwheel_admin.api.gitops.shapes import DOCUMENTS
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.gitops.objects import ObjectType
from tickwheel_admin.web.routes import Routes

routes = Routes()

_REF = "#/$defs/{name}"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@routes.get(
    "/api/v1/document-schema",
    permission=Permission.LOGGED_IN,
    api=True,
    answers=dict[str, Json],
)
async def document_schema(request: web.Request) -> web.Response:
    """The JSON Schema of the documents that plans take."""
    return answer(schema_of_documents())


def schema_of_documents() -> dict[str, Any]:
    """The schema; which type a document has decides which fields it may have."""
    found, components = msgspec.json.schema_components(DOCUMENTS.values(), ref_template=_REF)
    for each in components.values():
        if "properties" in each:
            each["additionalProperties"] = False
    by_type = dict(zip(DOCUMENTS, found, strict=True))
    # Chosen by `type`, so that an editor tells what is wrong with this one and not with all.
    choice: Any = False
    for kind, schema in by_type.items():
        given: dict[str, Any] = {"properties": {"type": {"const": kind.value}}}
        if kind is not ObjectType.JOB:  # which is what a document without a type is
            given["required"] = ["type"]
        choice = {"if": given, "then": schema, "else": choice}
    return {
        "$schema": DIALECT,
        "title": "Tickwheel documents",
        "type": "object",
        "properties": {"type": {"enum": [kind.value for kind in DOCUMENTS]}},
        **choice,
        "$defs": dict(sorted(components.items())),
    }
