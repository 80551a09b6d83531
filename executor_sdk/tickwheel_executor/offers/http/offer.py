"""The offer `http`, with the limits that the owner of a machine sets."""

from __future__ import annotations

import base64
import os
import ssl
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from yarl import URL

from tickwheel_executor.errors import ConfigurationError, Fail, Failed, Retry
from tickwheel_executor.offers import HandlerRegistry
from tickwheel_executor.offers.config import ConfigTable
from tickwheel_executor.run.context import Run
from tickwheel_executor.text import clean

from . import parameters as p
from .addresses import AddressPolicy, host_rules
from .answer import Expectations, result_of
from .connector import tls_context
from .exchange import HttpAnswer, Transport, exchange
from .json_paths import PathError, parse_path
from .request import HttpRequest, build_request, json_content, shown

_SHOWN_CHARS = 2_000  # of a response in the log
_NO_FIELDS: dict[str, p.Value | list[p.Value]] = {}
_NO_HEADERS: dict[str, str] = {}
_NO_VALUES: dict[str, Any] = {}
_SUCCESS: list[int | str] = ["2xx"]
_TRY_AGAIN: list[int | str] = [429, 503]


class Http:
    """Offers the handler `http`.

    Args:
        private: Hosts and networks that may be called although their addresses are private:
            "localhost:8080", "*.corp.example", "10.1.0.0/16". Link-local addresses, where clouds
            keep credentials, only by network.
        only: If any are given, nothing else may be called.
        ca_file: PEM file with further certificate authorities to trust.
        proxy: URL of a proxy for all calls; the environment is not asked. It resolves the names,
            so it also has to refuse private addresses.
        max_timeout_seconds: The longest timeout that a job may choose.
        max_body_kb: KiB of a response that are read; the rest is dropped.
        max_retry_after_seconds: The longest delay that a server can ask for.

    Raises:
        ConfigurationError: lists every invalid setting.
    """

    def __init__(
        self,
        *,
        private: Sequence[str] = (),
        only: Sequence[str] = (),
        ca_file: str | os.PathLike[str] | None = None,
        proxy: str | None = None,
        max_timeout_seconds: float = 3600.0,
        max_body_kb: int = 1024,
        max_retry_after_seconds: float = 3600.0,
    ) -> None:
        found: list[tuple[str, str]] = []
        policy = _policy(private, only, found)
        tls = _tls(os.fspath(ca_file) if ca_file else None, found)
        proxy_url = _proxy(proxy, found)
        if found or tls is None:
            raise ConfigurationError([f"{field}: {text}" for field, text in found])
        self._transport = Transport(policy=policy, tls=tls, proxy=proxy_url)
        self._max_timeout_seconds = max_timeout_seconds
        self._max_bytes = max_body_kb * 1024
        self._max_retry_seconds = max_retry_after_seconds

    @classmethod
    def from_config(cls, table: Mapping[str, Any], problems: list[str]) -> Http | None:
        """From the section [http] of an agent's file; None if it has problems."""
        config = ConfigTable("http", table, problems)
        private, only = config.texts("private"), config.texts("only")
        ca_file, proxy = config.text("ca_file") or None, config.text("proxy") or None
        timeout = config.number("max_timeout_seconds", 3600.0, least=0.1, most=86_400)
        body_kb = config.whole("max_body_kb", 1024, least=1, most=102_400)
        retry = config.number("max_retry_after_seconds", 3600.0, least=0, most=604_800)
        found: list[tuple[str, str]] = []
        _policy(private, only, found)
        _tls(ca_file, found)
        _proxy(proxy, found)
        for field, text in found:
            config.problem(field, text)
        if not config.finish():
            return None
        return cls(
            private=private,
            only=only,
            ca_file=ca_file,
            proxy=proxy,
            max_timeout_seconds=timeout,
            max_body_kb=body_kb,
            max_retry_after_seconds=retry,
        )

    def register(self, executor: HandlerRegistry) -> None:
        """Register the handler."""
        executor.handler("http")(self._http)

    async def _http(
        self,
        run: Run,
        *,
        url: p.Url,
        method: p.Method = "GET",
        headers: p.Headers = _NO_HEADERS,
        query: p.Query = _NO_FIELDS,
        body: p.Body = None,
        json: p.Json = None,
        form: p.Form = _NO_FIELDS,
        username: p.Username = "",
        password: p.Password = "",
        expected_status: p.ExpectedStatus = _SUCCESS,
        expected_json: p.ExpectedJson = _NO_VALUES,
        expected_text: p.ExpectedText = "",
        unwanted_text: p.UnwantedText = "",
        retry_on_status: p.RetryOnStatus = _TRY_AGAIN,
        timeout_seconds: p.TimeoutSeconds = 30.0,
        redirects: p.Redirects = "same_host",
        result: p.Result = "nothing",
        result_path: p.ResultPath = "",
        log_response: p.LogResponse = False,
    ) -> dict[str, Any]:
        """Call an HTTP server. The run succeeds if the answer is as expected."""
        if timeout_seconds > self._max_timeout_seconds:
            raise Fail(
                f"timeout_seconds: {timeout_seconds:g} is more than this machine allows, which is "
                f"{self._max_timeout_seconds:g}"
            )
        for path in (*expected_json, result_path):
            _check_path(path)
        content, content_type = _content(body, json, form)
        if content is not None and method in ("GET", "HEAD"):
            raise Fail(f"method: {method} sends no body; write POST, PUT or PATCH")
        request = build_request(
            method=method,
            url=url,
            headers=_with_login(headers, username, password),
            query=query,
            content=content,
            content_type=content_type,
            idempotency_key=str(run.id),
            trace_headers=run.trace_headers,
        )
        begun = time.monotonic()
        run.log.info("%s %s", method, shown(request.url))
        answer = await exchange(
            request,
            self._transport,
            redirects=redirects,
            timeout_seconds=timeout_seconds,
            max_bytes=self._max_bytes,
        )
        seconds = time.monotonic() - begun
        _log(run, request, answer, seconds)
        expected = Expectations(
            statuses=expected_status,
            retry_statuses=retry_on_status,
            json_values=expected_json,
            text=expected_text,
            unwanted_text=unwanted_text,
        )
        try:
            expected.check(answer, now=datetime.now(UTC), max_retry_seconds=self._max_retry_seconds)
            kept = result_of(answer, keep=result, path=result_path, seconds=seconds)
        except (Failed, Retry):
            _log_body(run, answer, is_good=False)
            raise
        if log_response:
            _log_body(run, answer, is_good=True)
        if kept.get("is_cut"):
            run.log.warning(
                "the response is longer than what is kept of it: this machine reads %s bytes, and "
                "a result has room for 60 KiB",
                f"{self._max_bytes:,}",
            )
        return kept


def _content(
    body: str | None, json: Any, form: Mapping[str, p.Value | list[p.Value]]
) -> tuple[bytes | None, str]:
    """What to send, and its type."""
    if (body is not None) + (json is not None) + bool(form) > 1:
        raise Fail("body, json and form: only one of them can be sent")
    if json is not None:
        return json_content(json), "application/json"
    if form:
        fields = {
            name: [_text(each) for each in value] if isinstance(value, list) else _text(value)
            for name, value in form.items()
        }
        return urlencode(fields, doseq=True).encode(), "application/x-www-form-urlencoded"
    if body is not None:
        return body.encode(), "text/plain; charset=utf-8"
    return None, ""


def _text(value: p.Value) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _with_login(headers: Mapping[str, str], username: str, password: str) -> dict[str, str]:
    if not username:
        if password:
            raise Fail("password: there is no username with it")
        return dict(headers)
    if any(name.lower() == "authorization" for name in headers):
        raise Fail("username: the headers contain Authorization already")
    if ":" in username:
        raise Fail("username: it must not contain a colon")
    login = base64.b64encode(f"{username}:{password}".encode()).decode()
    return {**headers, "Authorization": f"Basic {login}"}


def _check_path(path: str) -> None:
    try:
        parse_path(path)
    except PathError as error:
        raise Fail(str(error)) from None


def _log(run: Run, request: HttpRequest, answer: HttpAnswer, seconds: float) -> None:
    if answer.url != request.url:
        run.log.info("redirected to %s", shown(answer.url))
    size = f"{len(answer.body.data):,} bytes" if answer.body is not None else "no body"
    run.log.info("answered %d after %.3f s, %s", answer.status, seconds, size)


def _log_body(run: Run, answer: HttpAnswer, *, is_good: bool) -> None:
    if answer.body is None or not answer.body.data:
        return
    text = clean(answer.body.text(answer.charset))
    write = run.log.info if is_good else run.log.warning
    write("the response: %s", text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")


def _policy(
    private: Sequence[str], only: Sequence[str], found: list[tuple[str, str]]
) -> AddressPolicy:
    private_rules, problems = host_rules(private)
    found += [("private", each) for each in problems]
    only_rules, problems = host_rules(only)
    found += [("only", each) for each in problems]
    return AddressPolicy(private=private_rules, only=only_rules)


def _tls(ca_file: str | None, found: list[tuple[str, str]]) -> ssl.SSLContext | None:
    try:
        return tls_context(ca_file)
    except ssl.SSLError:
        found.append(("ca_file", f"{ca_file} contains no certificate; name a PEM file"))
    except OSError as error:
        found.append(("ca_file", f"{ca_file} cannot be read: {error.strerror}"))
    return None


def _proxy(text: str | None, found: list[tuple[str, str]]) -> URL | None:
    if text is None:
        return None
    try:
        url = URL(text)
        if url.scheme in ("http", "https") and url.host and url.port and url.path in ("", "/"):
            return url
    except ValueError:
        pass
    # The text is not repeated: it may contain a password.
    found.append(("proxy", 'this is not the URL of a proxy; write such as "http://proxy:3128"'))
    return None
