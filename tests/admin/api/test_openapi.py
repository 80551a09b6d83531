"""The OpenAPI document: made of the routes, complete, and as it is in docs/."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs  # `tests.admin.kit.contract` checks every answer with it
import pytest

from tests.admin.kit.contract import operation_of
from tests.admin.kit.served import served
from tests.support.documents import OPENAPI, openapi_text
from tickwheel_admin.api import api_routes
from tickwheel_admin.api.openapi import openapi as served_document
from tickwheel_admin.api.openapi.document import operation_id
from tickwheel_admin.api.openapi.openapi import openapi
from tickwheel_admin.domain.users.user import Role

UNTYPED: set[str] = set()
"""Modules whose endpoints do not say yet what they take and answer. None may be added."""


def test_the_document_in_docs_is_the_one_of_the_routes() -> None:
    """`python -m tests.support.documents` writes it."""
    assert OPENAPI.read_text(encoding="utf-8") == openapi_text()


def test_every_endpoint_says_what_it_takes_and_answers() -> None:
    untyped = {
        str(route.handler.__module__).removeprefix("tickwheel_admin.api.")
        for route in api_routes()
        if not route.is_typed
    }
    assert untyped == UNTYPED, "give the route answers=…, and query=…, body=… (CONTRIBUTING.md)"
    for route in api_routes():
        assert not route.is_typed or operation_of(route) is not None


def test_names_of_operations_are_unique() -> None:
    """Generated clients call their functions so."""
    named = Counter(operation_id(route) for route in api_routes())
    assert [name for name, times in named.items() if times > 1] == []


def test_every_endpoint_has_a_sentence_that_says_what_it_does() -> None:
    for route in api_routes():
        if route.is_typed:
            assert (route.handler.__doc__ or "").strip(), operation_id(route)


def test_schemas_are_json_schemas_and_every_reference_leads_somewhere() -> None:
    document = openapi()
    components = document["components"]
    for name, schema in components["schemas"].items():
        jsonschema_rs.validator_for(schema | {"components": components})  # raises what is wrong
        if not name.startswith(
            ("FilterOf", "XxlExecutorFields")
        ):  # made of input records, which are told one by one
            assert schema.get("description") or "enum" in schema, f"{name} has no docstring"
    text = json.dumps(document)
    for part in text.split('"$ref": "#/')[1:]:
        found = document
        for step in part.partition('"')[0].split("/"):
            found = found[step]


async def test_anybody_who_is_logged_in_gets_it_and_nobody_else(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        refused = await admin.client.get("/api/v1/openapi.json")
        headers = await admin.token_for("olga", Role.VIEWER)
        response = await admin.client.get("/api/v1/openapi.json", headers=headers)
        assert (refused.status, response.status) == (401, 200)
        assert await response.json() == json.loads(openapi_text())


async def test_it_is_made_once_and_not_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a tenth of a second, in which nothing else would be answered."""
    made_in: list[threading.Thread] = []

    def document_of(*args: object, **named: object) -> dict[str, Any]:
        made_in.append(threading.current_thread())
        return real(*args, **named)

    real: Callable[..., dict[str, Any]] = served_document.document_of
    monkeypatch.setattr(served_document, "document_of", document_of)
    for made in (served_document._document, served_document._encoded):
        made.cache_clear()
    async with served(tmp_path) as admin:
        headers = await admin.token_for("olga", Role.VIEWER)
        await admin.log_in("otto", Role.VIEWER)
        answers = await asyncio.gather(
            admin.client.get("/api-reference"),
            admin.client.get("/api-reference/create_job"),
            admin.client.get("/api/v1/openapi.json", headers=headers),
            admin.client.get("/api/v1/openapi.json", headers=headers),
        )
        assert [each.status for each in answers] == [200] * 4
    (thread,) = made_in
    assert thread is not threading.current_thread()


async def test_a_parameter_that_no_endpoint_knows_is_refused_where_there_are_none(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as admin:
        headers = await admin.token_for("olga", Role.VIEWER)
        response = await admin.client.get("/api/v1/openapi.json?formt=yaml", headers=headers)
        assert response.status == 422
        (problem,) = (await response.json())["error"]["problems"]
        assert (problem["field"], problem["code"]) == ("formt", "unknown_field")
