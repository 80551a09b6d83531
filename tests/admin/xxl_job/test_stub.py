"""The stand-in of an executor behaves like one, and misbehaves as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.admin.xxl_job.stub import Behaviour, StubExecutor
from tickwheel_admin.xxl_job.addresses import AddressGuard
from tickwheel_admin.xxl_job.caller import ConnectionRefused, HttpCaller, NoAnswer
from tickwheel_admin.xxl_job.dialects import (
    Answer,
    Call,
    Callback,
    Dialect,
    LogPage,
    Meaning,
    Registry,
    RunCall,
    answer,
    beat,
    headers,
    idle_beat,
    kill,
    log,
    meaning,
    read_answer,
    read_callbacks,
    read_log,
    read_registry,
    run,
)


class Admin:
    """Takes what executors send."""

    def __init__(self) -> None:
        self.callbacks: list[Callback] = []
        self.registrations: list[tuple[str, Registry]] = []
        self.headers: dict[str, str] = {}
        self.refuses = False
        self.base = ""

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.headers = dict(request.headers)
        if self.refuses:
            return web.Response(body=answer(500, "not now"))
        what = request.match_info["what"]
        if what == "callback":
            self.callbacks += read_callbacks(body)
        else:
            self.registrations.append((what, read_registry(body)))
        return web.Response(body=answer(200))


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    found = Admin()
    application = web.Application()
    application.router.add_post("/api/{what}", found.take)
    async with TestServer(application) as server:
        found.base = str(server.make_url("")).rstrip("/")
        yield found


@pytest.fixture
async def caller() -> AsyncIterator[HttpCaller]:
    found = HttpCaller(AddressGuard())
    yield found
    await found.close()


@pytest.fixture(params=list(Dialect))
async def stub(request: pytest.FixtureRequest, admin: Admin) -> AsyncIterator[StubExecutor]:
    found = StubExecutor(
        admin=admin.base, app_name="billing", token="secret", dialect=request.param.value
    )
    await found.start()
    yield found
    await found.stop()


def _dialect(stub: StubExecutor) -> Dialect:
    return Dialect(stub._dialect)


async def _ask(
    caller: HttpCaller, stub: StubExecutor, call: Call, *, token: str = "secret"
) -> Answer:
    reply = await caller.call(
        stub.address, call, headers(_dialect(stub), token, "billing"), seconds=0.5
    )
    return read_answer(reply.status, reply.body)


def _start(stub: StubExecutor, log_id: int, *, job_id: int = 7) -> Call:
    return run(
        _dialect(stub),
        RunCall(
            job_id=job_id,
            handler="demo",
            param="",
            timeout_s=0,
            log_id=log_id,
            time_ms=1_700_000_000_000 + log_id,
            index=0,
            total=1,
        ),
    )


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - polled, as there is nothing to wait on
            await asyncio.sleep(0.005)


async def test_it_registers_runs_and_tells(
    admin: Admin, stub: StubExecutor, caller: HttpCaller
) -> None:
    registered = Registry(group="EXECUTOR", app_name="billing", address=f"{stub.address}/")
    await _until(lambda: bool(admin.registrations))
    assert admin.registrations == [("registry", registered)]
    assert (await _ask(caller, stub, beat())).code == 200
    assert (await _ask(caller, stub, _start(stub, 65536))).code == 200
    await _until(lambda: bool(admin.callbacks))
    assert admin.callbacks == [
        Callback(log_id=65536, time_ms=1_700_000_065_536, code=200, message="")
    ]
    assert admin.headers["XXL-JOB-ACCESS-TOKEN"] == "secret"
    await stub.stop()
    assert admin.registrations[-1] == ("registryRemove", registered)
    with pytest.raises(ConnectionRefused):
        await _ask(caller, stub, beat())


async def test_it_is_busy_with_a_run_and_can_be_told_to_end_it(
    admin: Admin, stub: StubExecutor, caller: HttpCaller
) -> None:
    stub.behaviour.run_seconds = 60
    assert (await _ask(caller, stub, _start(stub, 65536))).code == 200
    assert meaning(await _ask(caller, stub, _start(stub, 65537))) is Meaning.BUSY
    assert meaning(await _ask(caller, stub, idle_beat(7))) is Meaning.BUSY
    assert meaning(await _ask(caller, stub, idle_beat(8))) is Meaning.OK
    assert (await _ask(caller, stub, kill(7))).code == 200
    assert (await _ask(caller, stub, kill(7))).message == "job thread already killed."
    await _until(lambda: bool(admin.callbacks))
    assert [(one.log_id, one.code) for one in admin.callbacks] == [(65536, 500)]
    assert not stub.runs


async def test_its_log_is_read_in_pages(stub: StubExecutor, caller: HttpCaller) -> None:
    stub.behaviour.log_lines = 1500
    await _ask(caller, stub, _start(stub, 65536))

    async def page(log_id: int, first: int) -> LogPage:
        call = log(_dialect(stub), log_id, 0, first)
        reply = await caller.call(
            stub.address, call, headers(_dialect(stub), "secret", "billing"), seconds=1
        )
        return read_log(reply.status, reply.body, from_line=first)

    assert (await page(65536, 1)).to_line == 1000
    last = await page(65536, 1001)
    assert (last.to_line, last.content.splitlines()[-1]) == (1500, "line 1500")
    assert (await page(65536, 1501)).to_line == 1500
    assert (await page(65537, 1)).missing


async def test_it_asks_for_its_token_and_knows_its_paths(
    stub: StubExecutor, caller: HttpCaller
) -> None:
    assert meaning(await _ask(caller, stub, beat(), token="x")) is Meaning.TOKEN_WRONG
    other = Call("/run" if _dialect(stub) is Dialect.C else "/trigger", b"{}")
    assert meaning(await _ask(caller, stub, other)) is Meaning.WRONG_PATH


async def test_it_misbehaves_as_told(admin: Admin, stub: StubExecutor, caller: HttpCaller) -> None:
    start = _start(stub, 65536)
    stub.behaviour = Behaviour(hangs={start.path}, batch_seconds=0)
    with pytest.raises(NoAnswer):
        await _ask(caller, stub, start)
    stub.behaviour.hangs.clear()
    stub.behaviour.drops.add(start.path)
    with pytest.raises(NoAnswer):
        await _ask(caller, stub, _start(stub, 65537))
    stub.behaviour.drops.clear()
    assert stub.starts == {65536: 1, 65537: 1}  # what was not answered was done
    stub.behaviour.refuses[start.path] = "job handler [demo] not found."
    assert meaning(await _ask(caller, stub, _start(stub, 65538))) is Meaning.HANDLER_UNKNOWN
    stub.behaviour.refuses.clear()
    stub.behaviour.is_deaf = True
    assert (await _ask(caller, stub, _start(stub, 65539))).code == 200
    stub.behaviour.is_deaf = False
    assert set(stub.starts) == {65536, 65537}
    stub.behaviour.says["/beat"] = b'{"code":500,"msg":"odd"}'
    assert (await _ask(caller, stub, beat())).message == "odd"
    await _until(lambda: len(admin.callbacks) == 2)

    stub.behaviour.results_sent = 2
    await _ask(caller, stub, _start(stub, 65540))
    await _until(lambda: len(admin.callbacks) == 4)
    stub.behaviour.lost_results = 1
    await _ask(caller, stub, _start(stub, 65541))
    await asyncio.sleep(0.05)
    assert [one.log_id for one in admin.callbacks] == [65536, 65537, 65540, 65540]

    stub.behaviour.lost_results = 0
    stub.behaviour.run_seconds = 60
    await _ask(caller, stub, _start(stub, 65542))
    stub.behaviour.denies = True
    assert meaning(await _ask(caller, stub, idle_beat(7))) is Meaning.OK
    stub.behaviour.answer_seconds = 5
    with pytest.raises(NoAnswer):
        await _ask(caller, stub, beat())


async def test_results_are_sent_until_they_are_taken(
    admin: Admin, stub: StubExecutor, caller: HttpCaller
) -> None:
    stub.behaviour.retry_seconds = 0.01
    await _until(lambda: bool(admin.registrations))
    admin.refuses = True
    await _ask(caller, stub, _start(stub, 65536))
    await asyncio.sleep(0.05)
    assert (admin.callbacks, stub.results_taken) == ([], 0)
    admin.refuses = False
    await _until(lambda: stub.results_taken == 1)
    assert [one.log_id for one in admin.callbacks] == [65536]


async def test_it_freezes_and_crashes(admin: Admin, stub: StubExecutor, caller: HttpCaller) -> None:
    assert (await _ask(caller, stub, beat())).code == 200
    stub.freeze()
    with pytest.raises(NoAnswer):
        await _ask(caller, stub, beat())
    stub.thaw()
    assert (await _ask(caller, stub, beat())).code == 200
    stub.behaviour.run_seconds = 60
    await _ask(caller, stub, _start(stub, 65536))
    address = stub.address
    await stub.crash()
    with pytest.raises((ConnectionRefused, NoAnswer)):
        await _ask(caller, stub, beat())
    assert not stub.runs
    await stub.start()
    assert stub.address == address
    assert (await _ask(caller, stub, beat())).code == 200
    assert admin.callbacks == []
