"""Requests to the API of an admin, one after another over a kept connection.

With the standard library alone: commands start faster than with a client that needs an event loop.
"""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

from tickwheel_admin.cli.client.errors import ApiRefused, NotReached, UsageFailure
from tickwheel_admin.cli.client.proxies import AdminRoute, route_to
from tickwheel_admin.cli.client.target import Target
from tickwheel_admin.cli.client.wire import (
    ApiRequest,
    json_bytes,
    no_admin,
    refusal,
    with_query,
    words_of,
)

DEFAULT_SECONDS: Final = 30.0  # for an answer; an admin without its database answers well before
MAX_PAGE: Final = 500
_BASE = "/api/v1"
_PAUSES = (0.2, 0.5, 1.0)  # seconds between rounds over all admins
_AWAY = (502, 503, 504)  # this admin, or its database, is unavailable
_CHUNK = 64 * 1024


class AdminApi:
    """The API of the admins of one installation.

    Reads, and writes with a key, are repeated for about two seconds when no admin answers. Other
    writes are sent once; only if no connection came about is another admin tried.

    Args:
        target: where, and with which token.
        seconds: the longest wait for an answer, or for more of one.
        language: of messages, as `Accept-Language` has it.
        sleep: pauses between repetitions, in seconds; None: `time.sleep`.
    """

    def __init__(
        self,
        target: Target,
        *,
        seconds: float = DEFAULT_SECONDS,
        language: str = "en",
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._urls = list(target.urls)  # the one that answered last comes first
        self._routes: dict[str, AdminRoute] = {}
        self._seconds = seconds
        self._sleep = time.sleep if sleep is None else sleep
        self._ca_file = target.ca_file
        self._headers = {
            "Accept-Language": language,
            "User-Agent": "tickwheel-cli",
            "Connection": "keep-alive",
        }
        if target.token is not None:
            self._headers["Authorization"] = f"Bearer {target.token}"
        self._kept: tuple[str, http.client.HTTPConnection] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connection."""
        if self._kept is not None:
            self._kept[1].close()
            self._kept = None

    @property
    def url(self) -> str:
        """Of the admin that is asked first."""
        return self._urls[0]

    # --- requests; paths begin behind /api/v1 ----------------------------------------------------

    def get(self, path: str, **query: object) -> Any:
        """The JSON of the answer; parameters that are None are left out.

        Raises:
            ApiRefused: with what the admin says.
            NotReached: no admin answered.
        """
        return self._json("GET", with_query(path, query), None, key=None, repeat=True)

    def pages(self, path: str, *, most: int | None, **query: object) -> Iterator[dict[str, Any]]:
        """The items of a list, page by page as they are asked for; None: all there are."""
        left, cursor = most, None
        while left is None or left > 0:
            size = MAX_PAGE if left is None else min(left, MAX_PAGE)
            page = self.get(path, **query, limit=size, cursor=cursor)
            yield from page["items"][:left]
            left = None if left is None else left - len(page["items"])
            cursor = page["next"]
            if cursor is None:
                return

    def post(
        self, path: str, body: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> Any:
        """The same for a POST; with a key, it is repeated like a read.

        Args:
            key: the `Idempotency-Key`; `new_key()` unless the user gave one.
        """
        return self._json("POST", path, {} if body is None else body, key=key)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """The same for a PUT."""
        return self._json("PUT", path, body, key=None)

    def delete(self, path: str, **query: object) -> Any:
        """The same for a DELETE."""
        return self._json("DELETE", with_query(path, query), None, key=None)

    def text(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | str | None = None,
        *,
        content_type: str = "application/json",
        **query: object,
    ) -> Iterator[bytes]:
        """The answer piece by piece as it arrives, whatever its type.

        Args:
            body: JSON, or text of another `content_type`.
        """
        sent = body.encode() if isinstance(body, str) else json_bytes(body)
        request = self._request(
            method, with_query(path, query), sent, content_type=content_type, key=None,
            repeat=method == "GET",
        )  # fmt: skip
        answer = self._ask(request)
        try:
            while piece := answer.read(_CHUNK):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise NotReached(f"{self.url} broke off: {words_of(error)}") from None

    def lines(self, path: str, **query: object) -> Iterator[str]:
        """The lines of an answer that may have no end, each as soon as it has arrived.

        Raises:
            ApiRefused: with what the admin says.
            NotReached: no admin answered, or nothing came for longer than an answer may take.
        """
        request = self._request(
            "GET", with_query(path, query), None, content_type="", key=None, repeat=True
        )
        answer = self._ask(request)
        try:
            while line := answer.readline():
                yield line.decode("utf-8", "replace").rstrip("\r\n")
        except (OSError, http.client.HTTPException) as error:
            raise NotReached(f"{self.url} broke off: {words_of(error)}") from None
        finally:
            self.close()  # whatever is left of the answer

    # --- the work --------------------------------------------------------------------------------

    def _json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        key: str | None,
        repeat: bool = False,
    ) -> Any:
        request = self._request(
            method, path, json_bytes(body), content_type="application/json", key=key, repeat=repeat
        )
        answer = self._ask(request)
        try:
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise NotReached(f"{self.url} broke off: {words_of(error)}") from None
        if answer.status == 204:
            return None
        try:
            return json.loads(content)
        except ValueError:
            raise self._no_admin(answer.status) from None

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        content_type: str,
        key: str | None,
        repeat: bool,
    ) -> ApiRequest:
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = content_type
        if key is not None:
            headers["Idempotency-Key"] = key
        return ApiRequest(
            method=method, path=path, body=body, headers=headers, is_repeatable=repeat or bool(key)
        )

    def _ask(self, request: ApiRequest) -> http.client.HTTPResponse:
        pauses = iter(_PAUSES)
        while True:
            away: list[str] = []
            for url in list(self._urls):
                try:
                    answer = self._ask_one(url, request)
                except _Away as reason:
                    away.append(f"{self._route(url).told}: {reason}")
                    continue
                self._urls = [url, *(each for each in self._urls if each != url)]
                return answer
            pause = next(pauses, None) if request.is_repeatable else None
            if pause is None:
                raise NotReached("no admin answers: " + "; ".join(away))
            self._sleep(pause)

    def _ask_one(self, url: str, request: ApiRequest) -> http.client.HTTPResponse:
        if not request.is_repeatable:
            self.close()  # the admin may just have closed an idle one: then nobody could say
        connection, is_kept = self._connection(url)
        route = self._route(url)
        path = route.prefix + urlsplit(url).path + _BASE + request.path
        headers = {**request.headers, **route.headers}
        try:
            connection.request(request.method, path, body=request.body, headers=headers)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if is_kept and request.is_repeatable:
                return self._ask_one(url, request)  # it had been closed for being idle
            if request.is_repeatable:
                raise _Away(words_of(error)) from None
            raise NotReached(
                f"{url} did not answer ({words_of(error)}); whether it was done is not known"
            ) from None
        if answer.status in _AWAY:
            told = self._error(answer)
            # Nothing was done without the database; behind a proxy one cannot know.
            if request.is_repeatable or told.code == "database.unavailable":
                raise _Away(str(told))
            raise told
        if not 200 <= answer.status < 300:
            raise self._error(answer)
        return answer

    def _connection(self, url: str) -> tuple[http.client.HTTPConnection, bool]:
        """A connection that is open; whether it was before."""
        if self._kept is not None:
            if self._kept[0] == url and self._kept[1].sock is not None:
                return self._kept[1], True
            self.close()
        connection = self._route(url).connection(seconds=self._seconds, tls=self._tls)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise NotReached(
                f"the certificate of {url} is not trusted: {error.verify_message}; name the file"
                " of its authority with --ca-file"
            ) from None
        except OSError as error:
            raise _Away(words_of(error)) from None
        self._kept = (url, connection)
        return connection, False

    def _route(self, url: str) -> AdminRoute:
        if url not in self._routes:
            self._routes[url] = route_to(url)
        return self._routes[url]

    def _tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:  # SSLError is one, too
            raise UsageFailure(f"{self._ca_file} has no certificates: {words_of(error)}") from None

    def _error(self, answer: http.client.HTTPResponse) -> ApiRefused:
        try:
            body = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            body = None
        error = body.get("error") if isinstance(body, dict) else None
        if not isinstance(error, dict):
            return self._no_admin(answer.status, answer.headers.get("Location"))
        return refusal(answer.status, error)

    def _no_admin(self, status: int, location: str | None = None) -> ApiRefused:
        url = self.url if self._kept is None else self._kept[0]
        self.close()  # whatever is left of the answer
        return no_admin(url, status, location)


class _Away(Exception):
    """This admin cannot answer now; another one may."""


def new_key() -> str:
    """An `Idempotency-Key` that nobody else uses."""
    return secrets.token_hex(16)


def in_path(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")
