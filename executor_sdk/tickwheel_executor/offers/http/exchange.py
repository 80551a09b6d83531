"""One call: connect, send, follow redirects, read the answer; every failure in one sentence."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tickwheel_executor.errors import Fail, Failed

from .addresses import AddressPolicy
from .body import Body, read_body
from .connector import RefusedAddressError, connector
from .request import HttpRequest, origin_of, shown

MAX_REDIRECTS = 10
CONNECT_SECONDS = 10.0
SAME_HOST, ANY_HOST, NO_REDIRECTS = "same_host", "any_host", "none"
_REDIRECTS = (301, 302, 303, 307, 308)
_KEEP_METHOD = (307, 308)
# Go to another host with a redirect; all other headers of a job may be meant for the first only.
_FOR_ANYBODY = ("user-agent", "accept", "accept-encoding", "accept-language")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """How calls leave this machine; the owner's part."""

    policy: AddressPolicy
    tls: ssl.SSLContext
    proxy: URL | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """A response, read as far as the limit."""

    url: URL  # after redirects
    status: int
    headers: CIMultiDictProxy[str]
    charset: str | None
    body: Body | None  # None: it could not be read, see `problem`
    problem: str = ""


async def exchange(
    request: HttpRequest,
    transport: Transport,
    *,
    redirects: str,
    timeout_seconds: float,
    max_bytes: int,
) -> HttpAnswer:
    """Send the request and read the answer.

    Args:
        redirects: which are followed: SAME_HOST, ANY_HOST or NO_REDIRECTS.
        timeout_seconds: for everything, from the look-up of the name to the end of the body.
        max_bytes: of the body; the rest is not read.

    Raises:
        Fail: the host may not be called.
        Failed: no complete answer.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            async with aiohttp.ClientSession(
                connector=connector(
                    transport.policy, tls=transport.tls, has_proxy=transport.proxy is not None
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                skip_auto_headers=("Content-Type",),
            ) as session:
                return await _follow(session, request, transport, redirects, max_bytes)
    except TimeoutError:
        raise Failed(
            f"{shown(request.url)} has not answered completely within {timeout_seconds:g} s"
        ) from None


async def _follow(
    session: aiohttp.ClientSession,
    request: HttpRequest,
    transport: Transport,
    redirects: str,
    max_bytes: int,
) -> HttpAnswer:
    for _hop in range(MAX_REDIRECTS + 1):
        _refuse_host(request.url, transport)
        with _explained(request.url):
            response = await session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
                proxy=transport.proxy,
            )
        try:
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or location is None or redirects == NO_REDIRECTS:
                return await _read(response, request.url, max_bytes)
            request = _redirected(request, response.status, location, redirects)
        finally:
            response.close()  # also in the middle of a body: nothing more is read
    raise Failed(f"{shown(request.url)}: more than {MAX_REDIRECTS} redirects")


async def _read(response: aiohttp.ClientResponse, url: URL, max_bytes: int) -> HttpAnswer:
    body, problem = None, ""
    try:
        with _explained(url):
            body = await read_body(response, max_bytes)
    except Failed as error:  # the status, if it is a wrong one, says more
        problem = str(error)
    return HttpAnswer(
        url=url,
        status=response.status,
        headers=response.headers,
        charset=response.charset,
        body=body,
        problem=problem,
    )


def _refuse_host(url: URL, transport: Transport) -> None:
    why = transport.policy.why_not_host(
        url.raw_host or "", url.port or 0, by_proxy=transport.proxy is not None
    )
    if why:
        raise Fail(f"refused: {why}")


def _redirected(request: HttpRequest, status: int, location: str, redirects: str) -> HttpRequest:
    """The request that a redirect asks for.

    Raises:
        Failed: it leads where this call does not go.
    """
    here = shown(request.url)
    try:
        url = request.url.join(URL(location)).with_fragment(None)
        is_web = url.scheme in ("http", "https") and bool(url.host) and bool(url.port)
    except ValueError:
        is_web = False
    if not is_web:
        raise Failed(f"{here} redirects to something that is no URL of http or https")
    url = url.with_user(None)
    if request.url.scheme == "https" and url.scheme == "http":
        raise Failed(f"{here} redirects to {shown(url)}, from https to http; this is not followed")
    is_same = _is_same_host(request.url, url)
    if not is_same and redirects != ANY_HOST:
        raise Failed(
            f"{here} redirects to another host, {shown(url)}; this is followed only with "
            f"redirects: {ANY_HOST}"
        )
    headers = CIMultiDict(request.headers)
    if not is_same:
        headers = CIMultiDict(
            (name, value) for name, value in headers.items() if name.lower() in _FOR_ANYBODY
        )
    if status in _KEEP_METHOD:
        if request.body is not None and not is_same:
            raise Failed(f"{here} wants the body to be sent to another host, {shown(url)}")
        return replace(request, url=url, headers=headers)
    headers.popall("Content-Type", None)
    method = request.method if request.method in ("GET", "HEAD") else "GET"
    return replace(request, method=method, url=url, headers=headers, body=None)


def _is_same_host(left: URL, right: URL) -> bool:
    """The same origin, or the same host by https on the usual ports."""
    if origin_of(left) == origin_of(right):
        return True
    is_upgrade = (left.scheme, left.port, right.scheme, right.port) == ("http", 80, "https", 443)
    return is_upgrade and origin_of(left)[1] == origin_of(right)[1]


@contextmanager
def _explained(url: URL) -> Iterator[None]:
    """Errors of the connection as one sentence each, without headers, query or body."""
    where = shown(url)
    try:
        yield
    except RefusedAddressError as error:
        raise Fail(f"refused: {error}") from None
    except aiohttp.ClientConnectorCertificateError as error:
        reason = getattr(error.certificate_error, "verify_message", "") or "it is not valid"
        raise Failed(f"{where}: the certificate of the server is refused: {reason}") from None
    except aiohttp.ClientConnectorSSLError as error:
        raise Failed(f"{where}: no TLS connection: {_reason(error.os_error)}") from None
    except aiohttp.ClientConnectorDNSError:
        raise Failed(f"{where}: the host {url.host} is not known") from None
    except aiohttp.ClientProxyConnectionError as error:
        raise Failed(f"{where}: the proxy cannot be reached: {_reason(error.os_error)}") from None
    except aiohttp.ClientHttpProxyError as error:
        raise Failed(f"{where}: the proxy answers {error.status}") from None
    except aiohttp.ClientConnectorError as error:
        raise Failed(f"{where}: cannot connect: {_reason(error.os_error)}") from None
    except aiohttp.ServerTimeoutError:
        raise Failed(f"{where}: cannot connect within {CONNECT_SECONDS:g} s") from None
    except aiohttp.ServerDisconnectedError:
        raise Failed(f"{where}: the server closed the connection without an answer") from None
    except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionResetError):
        raise Failed(f"{where}: the answer breaks off before its end") from None
    except aiohttp.ClientOSError as error:
        raise Failed(f"{where}: the connection broke: {_reason(error)}") from None
    except aiohttp.ClientResponseError:  # its text repeats what the server sent
        raise Failed(f"{where}: the server does not answer as HTTP demands") from None
    except (aiohttp.ClientError, ConnectionError) as error:
        raise Failed(f"{where}: no answer ({type(error).__name__})") from None
    except ValueError:  # aiohttp refuses a URL or header; its text may repeat it
        raise Fail(f"{where}: the request cannot be sent as it is written") from None


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "TLS error").replace("_", " ").lower()
    return error.strerror or type(error).__name__
