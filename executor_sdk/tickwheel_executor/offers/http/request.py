"""A request as a job describes it, checked before anything is sent. No error repeats a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from multidict import CIMultiDict
from yarl import URL

from tickwheel_executor.errors import Fail
from tickwheel_executor.version import VERSION

NO_HEADERS: Mapping[str, str] = {}
Scalar = str | int | float | bool
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# What the connection itself needs, or what would make two readers of it disagree.
_OWN_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "expect", "te"}
    | {"trailer", "keep-alive", "proxy-authorization", "proxy-connection"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request; redirects make others of it."""

    method: str
    url: URL
    headers: CIMultiDict[str]
    body: bytes | None = None


def build_request(
    *,
    method: str,
    url: str,
    headers: Mapping[str, str],
    query: Mapping[str, Scalar | list[Scalar]],
    content: bytes | None,
    content_type: str,
    idempotency_key: str,
    trace_headers: Mapping[str, str] = NO_HEADERS,
) -> HttpRequest:
    """The request.

    Args:
        content_type: of `content`, unless the job's headers name one.
        trace_headers: W3C Trace Context of the run; the job's own headers take their place.

    Raises:
        Fail: the URL or a header is not one.
    """
    target = parse_url(url)
    if query:
        target = target.extend_query({name: _texts(value) for name, value in query.items()})
    sent: CIMultiDict[str] = CIMultiDict(
        {
            "User-Agent": f"tickwheel-executor/{VERSION}",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Idempotency-Key": idempotency_key,
            **trace_headers,
        }
    )
    if content is not None and content_type:
        sent["Content-Type"] = content_type
    for name, value in headers.items():
        sent[_checked_name(name)] = _checked_value(name, value)
    return HttpRequest(method=method, url=target, headers=sent, body=content)


def parse_url(text: str) -> URL:
    """An absolute URL of http or https.

    Raises:
        Fail: it is none; the text is not repeated, because it may contain secrets.
    """
    if any(character.isspace() or not character.isprintable() for character in text):
        raise Fail("url: it contains white space or control characters")
    try:
        url = URL(text)
        host, port = url.host, url.port  # decodes the name, which may be no IDNA
    except ValueError:
        raise Fail("url: this is not a URL; write such as https://example.com/path") from None
    if url.scheme not in ("http", "https") or not host or not port:
        raise Fail("url: it must begin with https:// or http:// and name a host")
    if url.user is not None or url.password is not None:
        raise Fail(
            "url: it contains a user or a password, which logs would show; use the parameters "
            "username and password"
        )
    return url.with_fragment(None)


def shown(url: URL) -> str:
    """A URL for messages and logs, without what may be secret in it."""
    text = str(url.origin().join(URL.build(path=url.path or "/")))
    return f"{text}?…" if url.query_string else text


def origin_of(url: URL) -> tuple[str, str, int]:
    """Scheme, host and port."""
    return url.scheme, (url.raw_host or "").lower().rstrip("."), url.port or 0


def json_content(value: Any) -> bytes:
    """JSON text of a body."""
    return msgspec.json.encode(value)


def _texts(value: Scalar | list[Scalar]) -> str | list[str]:
    if isinstance(value, list):
        return [str(_texts(each)) for each in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _checked_name(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise Fail(f"headers: {name!r} is not the name of a header")
    if name.lower() in _OWN_HEADERS:
        raise Fail(f"headers: {name} is set by the connection itself; leave it out")
    return name


def _checked_value(name: str, value: str) -> str:
    if _CONTROL.search(value):
        raise Fail(f"headers: the value of {name} contains a line end or a control character")
    return value
