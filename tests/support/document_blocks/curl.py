"""Calls of the API by curl: path, method, query and body are those of the OpenAPI document."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import jsonschema_rs

from tickwheel_admin.api.openapi.openapi import openapi

_BASE = re.compile(r"^(?:\$API|https://[\w.]+/api/v1|http://[\w.:]+/api/v1)(?=/)")
_VARIABLES = {"$MARCH": {"from": "2026-03-01T00:00:00Z", "to": "2026-04-01T00:00:00Z"}}


def problems(words: list[str]) -> Iterator[str]:
    """What is wrong with a call."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-d", "--data", "--data-binary")
    parser.add_argument("-X", "--request")
    parser.add_argument("-N", action="store_true")
    parser.add_argument("-s", action="store_true")
    parser.add_argument("url")
    call = parser.parse_args(words)
    if not _BASE.match(call.url):
        yield f"{call.url} is no address of the API"
        return
    path, _, query = _BASE.sub("", call.url).partition("?")
    method = (call.request or ("POST" if call.data is not None else "GET")).lower()
    found = _operation(path, method)
    if found is None:
        yield f"there is no {method.upper()} {path}"
        return
    known = {each["name"] for each in _parameters(found) if each["in"] == "query"}
    for name, _value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            yield f"{method.upper()} {path} has no parameter {name}"
    if call.data is not None and not call.data.startswith("@"):
        yield from _body(found, call)


def _body(operation: Any, call: argparse.Namespace) -> Iterator[str]:
    if "Content-Type: application/json" not in call.header:
        yield f"{call.url}: the header of JSON is missing"
    try:
        body = _VARIABLES.get(call.data) or json.loads(call.data)
    except ValueError as error:
        yield f"{call.data}: {error}"
        return
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        if body != {}:
            yield f"{call.url} takes no body"
        return
    schema = content["schema"] | {"components": openapi()["components"]}
    for error in jsonschema_rs.validator_for(schema).iter_errors(body):
        yield f"{call.url}: {'.'.join(map(str, error.instance_path))}: {error.message[:200]}"


def _parameters(operation: Any) -> Iterator[Any]:
    for each in operation.get("parameters", ()):
        if "$ref" in each:
            yield openapi()["components"]["parameters"][each["$ref"].rpartition("/")[2]]
        else:
            yield each


def _operation(path: str, method: str) -> Any:
    for template, item in _paths():
        if template.fullmatch(f"/api/v1{path}") and method in item:
            return item[method]
    return None


@cache
def _paths() -> list[tuple[re.Pattern[str], Any]]:
    """Every path; those without parameters come first."""
    paths = sorted(openapi()["paths"].items(), key=lambda each: each[0].count("{"))
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), item) for path, item in paths]
