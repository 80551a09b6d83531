"""The client: several admins, one run however often it is asked for, errors that say what is so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.polling import wait_until_async
from tickwheel_executor import (
    Client,
    ClientError,
    ConfigurationError,
    NoAdminError,
    NotFoundError,
    RunNotSucceededError,
    TokenRefusedError,
    WaitTimeoutError,
)
from tickwheel_executor.client import api as client_api
from tickwheel_executor.client import client as client_module
from tickwheel_executor.settings import check_client
from tickwheel_executor.tls import TlsSettings

TOKEN = "twt_" + "t" * 40
NOBODY = "http://127.0.0.1:9"  # the port of "discard", where nothing listens
RUN = {
    "id": 7,
    "job_id": 3,
    "job_name": "send",
    "state": "running",
    "reason": None,
    "message": None,
    "result": None,
}


class FakeApi:
    """The part of an admin's API that the client uses."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.keys: list[str] = []
        self.jobs = [(3, "billing", "send"), (4, "billing", "send-all"), (5, "mail", "a/send")]
        self.states = ["succeeded"]  # what a run is, from answer to answer; the last one stays
        self.run: dict[str, Any] = {}  # what else is said of it
        self.refuses: tuple[int, Any] | None = None
        self.loses = 0  # so many answers are lost on the way
        self.page_size = 2
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.requests.append((request.method, request.path, dict(request.query), body))
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return error(401, "login.required", "Who are you?")
        if self.refuses is not None:
            status, content = self.refuses
            if isinstance(content, str):
                return web.Response(status=status, text=content)
            return web.json_response(content, status=status)
        path = request.path.removeprefix("/api/v1")
        if path.endswith("/run"):
            self.keys.append(request.headers["Idempotency-Key"])
            if self.loses and request.transport is not None:
                self.loses -= 1
                request.transport.abort()
            return web.json_response({"run_id": 7}, status=202)
        if path == "/jobs":
            return self._page(request.query["text"], int(request.query.get("cursor", 0)))
        if path == "/runs/7":
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            return web.json_response(RUN | {"state": state} | self.run)
        if path == "/runs/7/log":
            return self._log(int(request.query["after"]))
        return error(404, "not_found", "There is nothing here.")

    def _page(self, text: str, start: int) -> web.Response:
        found = [job for job in self.jobs if text in job[2]][start:]
        items = [
            {"id": number, "executor_name": executor, "config": {"name": name}}
            for number, executor, name in found[: self.page_size]
        ]
        rest = len(found) > self.page_size
        return web.json_response(
            {"items": items, "next": str(start + self.page_size) if rest else None}
        )

    def _log(self, after: int) -> web.Response:
        lines = [
            {"seq": seq, "at": "2026-03-01T08:00:00Z", "level": "info", "text": f"line {seq}"}
            for seq in (1, 2, 3)
            if seq > after
        ]
        more = len(lines) > self.page_size
        lines = lines[: self.page_size]
        last = lines[-1]["seq"] if lines else after
        return web.json_response({"attempt": 2, "lines": lines, "next": last, "more": more})


def error(status: int, code: str, message: str, **more: Any) -> web.Response:
    return web.json_response(
        {"error": {"code": code, "message": message, "problems": []} | more}, status=status
    )


Serve = Callable[[], Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Make an admin that listens."""
    servers: list[TestServer] = []

    async def start() -> FakeApi:
        admin, app = FakeApi(), web.Application()
        app.router.add_route("*", "/{path:.*}", admin.answer)
        server = TestServer(app)
        servers.append(server)
        await server.start_server()
        admin.url = str(server.make_url("")).rstrip("/")
        return admin

    yield start
    for server in servers:
        await server.close()


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_api, "_PAUSES", (0.0,))
    monkeypatch.setattr(client_module, "_FIRST_POLL_SECONDS", 0.001)


async def test_a_job_is_run_by_id_or_by_name(serve: Serve) -> None:
    admin = await serve()
    async with Client([admin.url], TOKEN) as client:
        assert await client.run_job(3) == 7
        assert await client.run_job("billing/send") == 7
        assert await client.run_job("mail/a/send") == 7
    asked = [(path, body) for _, path, _, body in admin.requests if path.endswith("/run")]
    assert asked == [(f"/api/v1/jobs/{job}/run", {}) for job in (3, 3, 5)]
    assert len(set(admin.keys)) == 3  # each call is a run of its own
    assert all(len(key) == 32 for key in admin.keys)


async def test_parts_of_a_program_share_the_connections_of_a_client(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = []
    make = client_api.Api._session
    monkeypatch.setattr(
        client_api.Api, "_session", lambda api: sessions.append(made := make(api)) or made
    )
    client = Client([(await serve()).url], TOKEN)
    async with client:
        async with client:
            assert await client.run_job(3) == 7
        assert [each.closed for each in sessions] == [False]
        assert await client.run_job(3) == 7
    assert [each.closed for each in sessions] == [True]


async def test_what_a_run_is_given(serve: Serve) -> None:
    admin = await serve()
    client = Client([admin.url], TOKEN)
    await client.run_job(
        3, {"month": "2026-03"}, node="host-1", delay_seconds=30, idempotency_key="order-4711"
    )
    await client.run_job(3, node=17)
    assert [body for *_, body in admin.requests] == [
        {"parameters": {"month": "2026-03"}, "node": "host-1", "delay_seconds": 30},
        {"node_id": 17},
    ]
    assert admin.keys[0] == "order-4711"


@pytest.mark.parametrize("job", ["send", "/send", "billing/", ""])
async def test_a_job_that_is_not_named(job: str) -> None:
    with pytest.raises(ClientError, match="executor/name") as caught:
        await Client([NOBODY], TOKEN).run_job(job)
    assert caught.value.code == "job.not_named"


async def test_the_next_admin_is_asked_with_the_same_key(serve: Serve) -> None:
    away, there = await serve(), await serve()
    away.refuses = (503, {"error": {"code": "database.unavailable", "message": "later"}})
    client = Client([NOBODY, away.url, there.url], TOKEN)
    assert await client.run_job(3) == 7
    assert len(away.requests) == 1
    assert len(there.keys) == 1
    away.refuses = None
    assert await client.run_job(3) == 7
    assert (len(away.requests), len(there.keys)) == (1, 2)  # whoever answered comes first


async def test_a_lost_answer_is_asked_for_again_with_the_same_key(serve: Serve) -> None:
    admin = await serve()
    admin.loses = 1
    assert await Client([admin.url], TOKEN).run_job(3) == 7
    assert len(admin.keys) == 2
    assert len(set(admin.keys)) == 1


async def test_nobody_answers() -> None:
    with pytest.raises(NoAdminError, match=r"no admin answers: http://127.0.0.1:9: ") as caught:
        await Client([NOBODY], TOKEN).run(7)
    assert list(caught.value.reasons) == [NOBODY]
    assert caught.value.status is None


async def test_what_admins_refuse(serve: Serve) -> None:
    admin = await serve()
    client = Client([admin.url], TOKEN)
    with pytest.raises(NotFoundError) as missing:
        await client.run(8)
    assert (missing.value.code, missing.value.status) == ("not_found", 404)
    with pytest.raises(NotFoundError, match="no job 'sned'"):
        await client.run_job("billing/sned")
    with pytest.raises(TokenRefusedError, match="Who are you") as refused:
        await Client([admin.url], "twt_" + "x" * 40).run(7)
    assert refused.value.status == 401
    problem = {"field": "node", "code": "node.unknown", "message": "There is no such node."}
    admin.refuses = (
        422,
        {"error": {"code": "invalid_input", "message": "Not so.", "problems": [problem]}},
    )
    with pytest.raises(ClientError, match=r"Not so\.\n- node: There is no such node\.") as wrong:
        await client.run_job(3, node="nowhere")
    assert (wrong.value.code, wrong.value.problems) == ("invalid_input", (problem,))
    assert len(admin.requests) == 4  # a refusal is an answer: it is not repeated


@pytest.mark.parametrize("refusal", [(200, "<html>welcome"), (302, ""), (500, "oh"), (404, "[]")])
async def test_what_is_no_admin(serve: Serve, refusal: tuple[int, str]) -> None:
    admin = await serve()
    admin.refuses = refusal
    with pytest.raises(ClientError, match="no Tickwheel admin") as caught:
        await Client([admin.url], TOKEN).run(7)
    assert (caught.value.code, caught.value.status) == ("no_admin", refusal[0])


async def test_waiting_ends_with_the_run(serve: Serve) -> None:
    admin = await serve()
    admin.states = ["queued", "running", "running", "succeeded"]
    admin.run = {"result": {"sent": 3}}
    run = await Client([admin.url], TOKEN).wait(7)
    assert (run.id, run.job, run.result, run.succeeded) == (7, "send", {"sent": 3}, True)
    assert run.data["job_id"] == 3
    assert len(admin.requests) == 4


async def test_a_run_that_does_not_succeed_is_an_error_unless_that_is_asked_for(
    serve: Serve,
) -> None:
    admin = await serve()
    admin.states, admin.run = ["failed"], {"message": "LookupError: no such customer"}
    client = Client([admin.url], TOKEN)
    with pytest.raises(RunNotSucceededError) as caught:
        await client.wait(7)
    assert str(caught.value) == "run 7 of 'send' is failed: LookupError: no such customer"
    assert (caught.value.code, caught.value.run.state) == ("run.failed", "failed")
    assert (await client.wait(7, check=False)).state == "failed"


async def test_waiting_has_an_end(serve: Serve) -> None:
    admin = await serve()
    admin.states = ["running"]
    client = Client([admin.url], TOKEN)
    with pytest.raises(WaitTimeoutError, match=r"after 0\.02 s run 7 is still running") as caught:
        await client.wait(7, timeout=0.02)
    assert isinstance(caught.value, TimeoutError)
    admin.states = ["succeeded"]
    assert (await client.wait(7, timeout=0)).succeeded


async def test_waiting_bears_that_admins_are_away_for_a_while(serve: Serve) -> None:
    admin = await serve()
    admin.states = ["running"]
    waiting = asyncio.create_task(Client([admin.url], TOKEN).wait(7))
    await wait_until_async(lambda: bool(admin.requests))
    admin.refuses = (503, "restarting")
    seen = len(admin.requests)
    await wait_until_async(lambda: len(admin.requests) >= seen + 4)  # it gave up once at least
    admin.refuses, admin.states = None, ["succeeded"]
    assert (await waiting).succeeded


async def test_waiting_for_nobody_fails_at_once() -> None:
    with pytest.raises(NoAdminError):
        await Client([NOBODY], TOKEN).wait(7)


async def test_a_log_is_read_page_by_page(serve: Serve) -> None:
    admin = await serve()
    lines = await Client([admin.url], TOKEN).log(7)
    assert [(line.seq, line.level, line.text) for line in lines] == [
        (seq, "info", f"line {seq}") for seq in (1, 2, 3)
    ]
    assert lines[0].at.isoformat() == "2026-03-01T08:00:00+00:00"
    assert "attempt" not in admin.requests[0][2]
    assert admin.requests[1][2] == {"attempt": "2", "after": "2", "limit": "5000"}


async def test_code_without_an_event_loop_asks_for_the_result(serve: Serve) -> None:
    admin = await serve()

    def work() -> str:
        client = Client([admin.url], TOKEN)
        run_id = client.run_job("billing/send").result()
        return client.wait(run_id, timeout=10).result().state

    assert await asyncio.to_thread(work) == "succeeded"


async def test_asking_for_a_result_on_the_loop_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="use `await` instead"):
        Client([NOBODY], TOKEN).run(7).result()


def test_a_call_is_a_coroutine_like_any_other() -> None:
    call = Client([NOBODY], TOKEN).run(7)
    with pytest.raises(NoAdminError):
        asyncio.run(call)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"token": ""}, "tickwheel token create"),
        ({"token": "twx_" + "t" * 40}, "the token of an executor"),
        ({"admins": []}, "no admin"),
        ({"admins": ["ftp://x"]}, "it must start with http"),
    ],
)
def test_what_cannot_work_is_said_at_once(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        Client(**({"admins": [NOBODY], "token": TOKEN} | given))
    assert "ttt" not in str(caught.value)


def test_the_environment_fills_in_what_is_not_given() -> None:
    environ = {"TICKWHEEL_ADMINS": "http://a:8500,http://b", "TICKWHEEL_API_TOKEN": TOKEN}
    found = check_client(admins=None, token=None, environ=environ)
    assert found == (("http://a:8500", "http://b"), TOKEN, TlsSettings())
