"""The real WebSocket: token, frames, closing, silence, breaking off; and a whole Executor on it."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path

import pytest
from aiohttp import WSMsgType
from aiohttp.connector import Connection
from yarl import URL

from tests.executor_sdk.link_server import LinkServer
from tests.executor_sdk.scripted_admin import TOKEN
from tests.support.polling import wait_until_async
from tickwheel_executor import Executor, Run, SpoolError
from tickwheel_executor.errors import ConnectError, UnauthorizedError
from tickwheel_executor.link.channel import AdminChannel, connect


@pytest.mark.parametrize(
    ("status", "error"), [(401, UnauthorizedError), (403, UnauthorizedError), (503, ConnectError)]
)
async def test_an_http_answer_is_the_right_error(
    server: LinkServer, status: int, error: type[Exception]
) -> None:
    server.status = status
    with pytest.raises(error, match=str(status)) as caught:
        await connect(server.url, TOKEN)
    assert type(caught.value) is error


async def test_a_wrong_token_is_not_let_in(server: LinkServer) -> None:
    with pytest.raises(UnauthorizedError):
        await connect(server.url, "w" * 40)


async def test_nobody_there_is_a_connect_error(unused_tcp_port: int) -> None:
    with pytest.raises(ConnectError):
        await connect(f"http://127.0.0.1:{unused_tcp_port}", TOKEN)


async def test_frames_go_out_as_text_and_come_in(server: LinkServer) -> None:
    channel: AdminChannel = await connect(server.url, TOKEN)
    await channel.send('[{"type":"hello","name":"结果"}]'.encode())
    frame = await channel.receive()
    assert json.loads(frame or "")[0]["type"] == "welcome"
    assert server.kinds == [WSMsgType.TEXT]
    assert server.all("hello")[0]["name"] == "结果"
    await channel.close(1000, "the node is going away")
    assert await channel.receive() is None
    await wait_until_async(lambda: server.sockets[0].close_code == 1000)
    with pytest.raises(ConnectError):
        await channel.send(b"[]")


async def test_the_reason_of_the_admin_is_told(server: LinkServer) -> None:
    channel = await connect(server.url, TOKEN)
    await wait_until_async(lambda: server.sockets)
    await server.sockets[0].close(code=1008, message=b"frame 1: no such type")
    assert await channel.receive() is None
    assert "1008" in channel.close_reason
    assert "no such type" in channel.close_reason


async def test_a_binary_frame_is_refused(server: LinkServer) -> None:
    channel = await connect(server.url, TOKEN)
    await wait_until_async(lambda: server.sockets)
    await server.sockets[0].send_bytes(b"[]")
    assert await channel.receive() is None
    await wait_until_async(lambda: server.sockets[0].close_code == 1008)


async def test_an_oversized_frame_is_refused(server: LinkServer) -> None:
    channel = await connect(server.url, TOKEN)
    await wait_until_async(lambda: server.sockets)
    await server.sockets[0].send_str("x" * (4 * 1024 * 1024 + 1))
    assert await channel.receive() is None
    await wait_until_async(lambda: server.sockets[0].close_code == 1009)


async def test_aborting_kills_what_the_system_has_buffered(server: LinkServer) -> None:
    server.reads.clear()  # the admin does not read: frames pile up in both systems' buffers
    channel = await connect(server.url, TOKEN)
    await wait_until_async(lambda: server.sockets)
    receiving = asyncio.create_task(channel.receive())
    frame = json.dumps([{"type": "x", "text": "y" * 100_000}]).encode()

    sent = 0

    async def fill() -> None:
        nonlocal sent
        for _ in range(300):
            await channel.send(frame)
            sent += 1

    filling = asyncio.create_task(fill())
    await asyncio.wait([filling], timeout=0.3)
    channel.abort()
    assert await asyncio.wait_for(receiving, 5) is None
    with pytest.raises(ConnectError):
        await asyncio.wait_for(filling, 5)
    server.reads.set()
    await wait_until_async(lambda: server.transports[0] and server.transports[0].is_closing())
    assert len(server.frames) < sent < 300


async def test_aborting_leaves_no_open_connection_behind(server: LinkServer) -> None:
    channel = await connect(server.url, TOKEN)
    receiving = asyncio.create_task(channel.receive())
    await wait_until_async(lambda: server.sockets)
    receiving.cancel()  # as a node's tasks are that ends: nobody reads
    await asyncio.wait([receiving])
    channel.abort()
    await wait_until_async(lambda: server.transports[0] and server.transports[0].is_closing())
    await wait_until_async(lambda: not _connections(server.url))


def _connections(url: str) -> list[Connection]:
    """Those of clients to this address that aiohttp would warn of."""
    gc.collect()
    found = (each for each in gc.get_objects() if isinstance(each, Connection))
    return [each for each in found if each.protocol is not None and each._key.port == URL(url).port]


async def test_an_executor_inside_a_service(server: LinkServer, tmp_path: Path) -> None:
    executor = Executor("billing", admins=[server.url + "/"], token=TOKEN, spool_dir=tmp_path)

    @executor.handler("add")
    async def add(run: Run) -> int:
        run.log.info("adding")
        return int(run.parameters["a"]) + 1

    async with executor:
        await wait_until_async(lambda: server.all("held"))
        message = {"type": "run", "run": 1, "attempt": 1, "token": "t", "job_id": 1, "job": "j"}
        message |= {"handler": "add", "parameters": {"a": 41}, "scheduled_at": 0}
        message |= {"timeout_ms": None, "try_number": 1, "max_tries": 1, "origin": "manual"}
        await server.sockets[0].send_json([message])
        await wait_until_async(lambda: server.all("result"))
        await server.sockets[0].close(code=1001)  # an admin that restarts
        await wait_until_async(lambda: len(server.all("held")) == 2)
    assert server.all("result")[0]["result"] == 42
    assert server.all("log")[0]["lines"][0][1:] == ["info", "adding"]
    assert [entry["type"] for entry in server.frames[-1]][-1] == "goodbye"
    await wait_until_async(lambda: server.sockets[1].close_code == 1000)


async def test_a_spool_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    executor = Executor("b", admins=["http://x"], token=TOKEN, spool_dir=tmp_path / "file")
    with pytest.raises(SpoolError):
        await executor.__aenter__()
