"""Request bodies: read once, within a size and a time, never unpacked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec
from aiohttp import hdrs, web
from multidict import MultiDict, MultiDictProxy

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.web.form_body import NotText, multipart_fields, urlencoded_fields

T = TypeVar("T")

MAX_BODY_BYTES = 1024 * 1024  # the application's `client_max_size`
BODY_SECONDS = 20  # how long a body may take to arrive

FORM_TYPES = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})
_FORM: web.RequestKey[MultiDictProxy[str]] = web.RequestKey("form")


async def read_form(request: web.Request) -> MultiDictProxy[str]:
    """The fields of a form; none when the request has no form.

    Raises:
        HTTPUnsupportedMediaType: another charset than UTF-8, or a file, which no form of ours has.
        HTTPBadRequest: the form is broken.
        HTTPRequestTimeout: the body did not arrive in time.
    """
    if _FORM in request:
        return request[_FORM]
    fields: list[tuple[str, str]] = []
    if request.content_type in FORM_TYPES:
        _refuse_encoding(request)
        if (request.charset or "utf-8").lower() not in ("utf-8", "utf8"):
            raise web.HTTPUnsupportedMediaType
        body = await _in_time(request.read())
        try:
            if request.content_type == "multipart/form-data":
                fields = multipart_fields(body, request.headers[hdrs.CONTENT_TYPE])
            else:
                fields = urlencoded_fields(body)
        except NotText:
            raise web.HTTPUnsupportedMediaType from None
        except ValueError:
            raise web.HTTPBadRequest from None
    request[_FORM] = MultiDictProxy(MultiDict(fields))
    return request[_FORM]


async def read_json(request: web.Request, *, most: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The JSON object of a request; an empty body counts as {}.

    Args:
        most: bytes.

    Raises:
        HTTPUnsupportedMediaType: not declared as JSON: only a deliberate program declares it.
        HTTPRequestTimeout: the body did not arrive in time.
        HTTPRequestEntityTooLarge: it has more bytes.
        InvalidInput: not a JSON object.
    """
    _refuse_encoding(request)
    if most != MAX_BODY_BYTES:
        request = request.clone(client_max_size=most)
    body = await _in_time(request.read())
    if not body:
        return {}
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput.one(
            "", "json.invalid", "The body is not JSON: %(problem)s.", problem=str(error)[:200]
        ) from None
    if not isinstance(content, dict):
        raise InvalidInput.one("", "json.not_an_object", "The body must be a JSON object.")
    return content


async def read_yaml_body(request: web.Request) -> bytes:
    """The body of a request that is declared as YAML; raises like `read_json`."""
    _refuse_encoding(request)
    body = await _in_time(request.read())
    if request.content_type != "application/yaml":
        raise web.HTTPUnsupportedMediaType
    return body


async def _in_time(arriving: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await arriving
    except TimeoutError:
        raise web.HTTPRequestTimeout from None


def _refuse_encoding(request: web.Request) -> None:
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").strip().lower() != "identity":
        raise web.HTTPUnsupportedMediaType
