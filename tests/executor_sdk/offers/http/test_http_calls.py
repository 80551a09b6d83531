"""The handler `http`: what is sent, what an answer means, and what is kept of it."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.executor_sdk.offers.registry import handler_of
from tickwheel_executor.handlers.signature import Signature
from tickwheel_executor.offers.http import Http
from tickwheel_executor.offers.http.answer import retry_after
from tickwheel_shared.protocol import MAX_SCHEMA_BYTES

from .conftest import Call, offer_with
from .server import Exchange, ScriptedServer

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def answers(body: bytes, status: int = 200, *headers: str) -> Any:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(body, status, *headers)

    return script


async def test_a_request_is_sent_as_the_job_says(server: ScriptedServer, call: Call) -> None:
    server.script = answers(b'{"data": {"id": 7}}')
    end = await call(
        method="PUT",
        url=f"{server.url}orders?a=1",
        query={"b": [1, True], "c": "x y&z"},
        headers={"X-Team": "crm", "accept": "application/json"},
        json={"name": "Zoë"},
        username="anna",
        password="p:w",
        result="json",
        result_path="data.id",
        traceparent=TRACEPARENT,
    )
    assert end.outcome == "succeeded", end.message
    assert end.result["status"] == 200
    assert end.result["body"] == 7
    [sent] = server.exchanges
    assert sent.head.startswith("PUT /orders?a=1&b=1&b=true&c=x+y%26z HTTP/1.1\r\n")
    assert sent.body == '{"name":"Zoë"}'.encode()
    assert sent.header("Content-Type") == "application/json"
    assert sent.header("X-Team") == "crm"
    assert sent.header("Accept") == "application/json"
    assert sent.header("Idempotency-Key") == "1"
    assert sent.header("traceparent") == TRACEPARENT
    assert sent.header("Authorization") == "Basic " + base64.b64encode(b"anna:p:w").decode()


@pytest.mark.parametrize(
    ("content", "sent", "kind"),
    [
        (
            {"form": {"a": "ü", "b": [1, 2]}},
            b"a=%C3%BC&b=1&b=2",
            "application/x-www-form-urlencoded",
        ),
        ({"body": "plain"}, b"plain", "text/plain; charset=utf-8"),
        ({"body": "<a/>", "headers": {"content-type": "text/xml"}}, b"<a/>", "text/xml"),
    ],
)
async def test_bodies(
    server: ScriptedServer, call: Call, content: dict[str, Any], sent: bytes, kind: str
) -> None:
    server.script = answers(b"")
    assert (await call(method="POST", **content)).succeeded
    assert server.exchanges[0].body == sent
    assert server.exchanges[0].header("Content-Type") == kind


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, None),
        ({"expected_json": {"state": "ok", "list[1].n": 2, "/a.b/c": None}}, None),
        ({"expected_text": '"ok"', "unwanted_text": "error"}, None),
        ({"expected_status": ["201-204"]}, "answers 200; expected: 201-204"),
        ({"expected_json": {"state": "done"}}, 'state is "ok"; expected: "done"'),
        ({"expected_json": {"flag": 1}}, "flag is true; expected: 1"),
        ({"expected_json": {"list[5]": 1}}, "the JSON has nothing at list[5]"),
        ({"expected_text": "gone"}, "does not contain 'gone'"),
        ({"unwanted_text": "state"}, "contains 'state'"),
    ],
)
async def test_expectations(
    server: ScriptedServer, call: Call, parameters: dict[str, Any], message: str | None
) -> None:
    server.script = answers(
        b'{"state": "ok", "flag": true, "list": [{}, {"n": 2}], "a.b": {"c": null}}'
    )
    end = await call(**parameters)
    if message is None:
        assert end.succeeded, end.message
        return
    assert end.outcome == "failed"
    assert message in end.message
    assert not end.final
    assert end.retry_after is None
    assert any('"state"' in line for line in end.lines("warning")), "the body is in the log"


@pytest.mark.parametrize(
    ("status", "header", "after"),
    [(429, "30", 30.0), (503, "999999999", 3600.0), (503, "nonsense", None), (429, "-5", None)],
)
async def test_statuses_for_another_try(
    server: ScriptedServer, call: Call, status: int, header: str, after: float | None
) -> None:
    server.script = answers(b"busy", status, f"Retry-After: {header}")
    end = await call()
    assert (end.outcome, end.retry_after, end.final) == ("failed", after, False)
    assert f"answers {status}; another try may help" in end.message


def test_dates_to_try_again_at() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert retry_after("Sun, 01 Mar 2026 12:01:00 GMT", now=now) == 60.0
    assert retry_after("Sun, 01 Mar 2020 12:01:00 GMT", now=now) == 0.0
    assert retry_after("Sun, 99 Mar 99999 12:01:00 GMT", now=now) is None


async def test_a_long_text_is_cut_to_what_a_result_holds(
    server: ScriptedServer, call: Call
) -> None:
    server.script = answers('"\x00ü'.encode() * 50_000)
    end = await call(result="text", log_response=True)
    assert end.succeeded, end.message
    assert end.result["is_cut"] is True
    assert end.result["body"].startswith('"�ü')
    assert any("longer than what is kept" in line for line in end.lines("warning"))


async def test_long_json_is_left_out(server: ScriptedServer, call: Call) -> None:
    server.script = answers(b"[" + b"1," * 50_000 + b"1]")
    end = await call(result="json")
    assert end.succeeded, end.message
    assert end.result["is_cut"] is True
    assert "body" not in end.result


async def test_a_compressed_answer_that_was_asked_for(server: ScriptedServer, call: Call) -> None:
    server.script = answers(gzip.compress(b'{"a": 1}'), 200, "Content-Encoding: gzip")
    end = await call(result="json", headers={"Accept-Encoding": "gzip"})
    assert end.result["body"] == {"a": 1}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"url": "ftp://example.com/"}, "must begin with https:// or http://"),
        ({"url": "https://anna:geheim@example.com/"}, "use the parameters username and password"),
        ({"url": "http://exa mple.com/?t=geheim"}, "white space"),
        ({"url": "http://[::1/?t=geheim"}, "this is not a URL"),
        ({"url": "http://example.com:99999/geheim"}, "this is not a URL"),
        ({"url": "http://xn--a!.example/geheim"}, "this is not a URL"),
        ({"headers": {"X-A": "geheim\r\nX-B: 1"}}, "the value of X-A contains a line end"),
        ({"headers": {"X A": "1"}}, "'X A' is not the name of a header"),
        ({"headers": {"Host": "metadata"}}, "Host is set by the connection itself"),
        ({"headers": {"Content-length": "5"}}, "is set by the connection itself"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "is set by the connection itself"),
        ({"body": "a", "json": 1, "method": "POST"}, "only one of them"),
        ({"body": "a"}, "GET sends no body"),
        ({"password": "geheim"}, "there is no username"),
        ({"expected_status": ["2x"]}, "parameters: expected_status[0]"),
        ({"expected_json": {"a[": 1}}, "'a[' is not a path"),
        ({"timeout_seconds": 7200}, "more than this machine allows"),
        ({"timeout": 5}, "did you mean 'timeout_seconds'?"),
    ],
)
async def test_bad_parameters_fail_for_good(
    call: Call, parameters: dict[str, Any], message: str
) -> None:
    end = await call(**parameters)
    assert end.outcome == "failed"
    assert end.final
    assert message in end.message
    assert "geheim" not in end.message + str(end.log)


def test_the_form_is_described_and_small_enough_for_an_admin() -> None:
    schema = Signature("http", handler_of(offer_with(), "http")).schema
    assert schema is not None
    assert len(schema) <= MAX_SCHEMA_BYTES
    described = json.loads(schema)["properties"]
    assert {name for name, part in described.items() if not part.get("description")} == set()


def test_a_section_with_every_problem() -> None:
    problems: list[str] = []
    table = {
        "private": ["10.0.0.0/8", "http://x", "2130706433"],
        "only": ["a..b:99999"],
        "ca_file": "/none.pem",
        "proxy": "socks5://anna:geheim@proxy",
        "max_body_kb": 0,
        "verify": False,
    }
    assert Http.from_config(table, problems) is None
    assert [each.partition(":")[0] for each in problems] == [
        "http.max_body_kb",
        "http.private",
        "http.private",
        "http.only",
        "http.ca_file",
        "http.proxy",
        "http.verify",
    ]
    assert "geheim" not in str(problems)
    problems.clear()
    good = {"private": ["localhost:80", "*.corp.example"], "proxy": "http://proxy:3128"}
    assert Http.from_config(good, problems) is not None, problems
