"""The OpenAPI 3.1 document: every route of the API, what it takes, answers and refuses.

Nothing of it is written by hand but this frame: parameters and bodies come from the inputs that
handlers read, answers from the types of the views (`web/routes.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tickwheel_admin.api.openapi.answers import answers_of, error_components
from tickwheel_admin.api.openapi.paths import path_and_parameters
from tickwheel_admin.api.openapi.schemas import Schemas
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.csrf import CSRF_HEADER
from tickwheel_admin.web.identity import SESSION_COOKIE
from tickwheel_admin.web.input_fields import InputField
from tickwheel_admin.web.routes import Route

_NEEDS = {
    Permission.LOGGED_IN: "Any user.",
    Permission.VIEW: "Needs the role viewer",
    Permission.OPERATE: "Needs the role operator",
    Permission.DEVELOP: "Needs the role developer",
    Permission.SCRIPT: "Needs the role developer with scripts",
    Permission.ADMINISTER: "Needs the role admin",
}


def document_of(routes: Iterable[Route], *, version: str) -> dict[str, Any]:
    """The document of these routes.

    Args:
        version: of Tickwheel.
    """
    typed = sorted(
        (route for route in routes if route.api and route.is_typed),
        key=lambda route: (path_and_parameters(route.path)[0], route.method),
    )
    schemas = Schemas(typed)
    paths: dict[str, dict[str, Any]] = {}
    for route in typed:
        path, parameters = path_and_parameters(route.path)
        operation = _operation(route, parameters, schemas)
        paths.setdefault(path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tickwheel",
            "version": version,
            "summary": "JSON over HTTP for programs: jobs, runs, executors, calendars and alarms.",
            "description": "docs/api.md explains conventions, errors and what may change.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The admin that serves this document."}],
        "tags": [{"name": name} for name in sorted({_tag(route) for route in typed})],
        "security": [{"token": []}, {"session": [], "csrf": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": error_components(),
            "securitySchemes": _SECURITY,
        },
    }


def operation_id(route: Route) -> str:
    """The name that generated clients give the function."""
    return str(getattr(route.handler, "__name__", ""))


_SECURITY = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API token, `twt_…`, with the roles of its user or fewer.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION_COOKIE,
        "description": "The session of a browser that is logged in to the console.",
    },
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": CSRF_HEADER,
        "description": "With a session: needed by all that changes something.",
    },
}


def _operation(
    route: Route, parameters: Sequence[dict[str, Any]], schemas: Schemas
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "tags": [_tag(route)],
        "summary": _summary(route),
        "description": _needs(route),
    }
    if route.in_person:
        operation["security"] = [{"session": [], "csrf": []}]
    elif route.method == "GET":
        operation["security"] = [{"token": []}, {"session": []}]
    parameters = [
        *parameters,
        *(_parameter(each, "query", schemas) for each in route.query),
        *(_parameter(each, "header", schemas) for each in route.headers),
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = _body(route, schemas)
    operation["responses"] = answers_of(route, schemas)
    return operation


def _parameter(each: InputField[Any], place: str, schemas: Schemas) -> dict[str, Any]:
    schema = schemas.of(each.type)
    if each.default is not None:
        schema = schema | {"default": each.default}
    parameter: dict[str, Any] = {"name": each.name, "in": place, "description": each.about}
    if each.required:
        parameter["required"] = True
    return parameter | {"schema": schema}


def _body(route: Route, schemas: Schemas) -> dict[str, Any]:
    if isinstance(route.body, tuple):
        schema = schemas.fields(route.body)
        required = any(each.required for each in route.body)
    else:
        schema, required = schemas.of(route.body), True
    return {"required": required, "content": {route.body_type: {"schema": schema}}}


def _tag(route: Route) -> str:
    """The shelf of the route's module."""
    return str(route.handler.__module__).split(".")[2].replace("_", " ")


def _summary(route: Route) -> str:
    doc = (route.handler.__doc__ or "").strip().partition("\n")[0]
    return doc or operation_id(route).replace("_", " ").capitalize() + "."


def _needs(route: Route) -> str:
    needs = _NEEDS[route.permission]
    if not needs.endswith("."):
        needs += " on all executors." if route.on_all else "."
    if route.in_person:
        needs += " Not with a token."
    return needs
