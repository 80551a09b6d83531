"""Calls to executors over real sockets: what ends how, what was sent, and what it may cost."""

from __future__ import annotations

import asyncio
import gc
import gzip
import resource
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.admin.xxl_job.fake_names import FakeNames
from tests.support.polling import wait_until_async
from tickwheel_admin.xxl_job import caller as module
from tickwheel_admin.xxl_job.addresses import AddressGuard, GuardedResolver
from tickwheel_admin.xxl_job.caller import (
    ConnectionRefused,
    HttpCaller,
    NoAnswer,
    NotSent,
    Reply,
)
from tickwheel_admin.xxl_job.dialects import (
    BadAnswer,
    Call,
    Dialect,
    beat,
    headers,
    kill,
    read_answer,
)
from tickwheel_admin.xxl_job.http import connections, host_names
from tickwheel_admin.xxl_job.places import MAX_CALLS_PER_NODE

RUN = Call("/run", b'{"jobId":1}')
LOG = Call("/log", b'{"logId":1}')
HEADERS = headers(Dialect.A, "secret", "billing")
DONE = b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"code":200}'

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]


@dataclass
class Node:
    """A server that does with each request what the test's script says."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0  # so far
    open_now: int = 0
    most_open: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def hang_up(self) -> None:
        """Break all connections, as the end of a process does."""
        for writer in self.writers:
            writer.transport.abort()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def _node(script: Script) -> AsyncIterator[Node]:
    node = Node()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        node.connections += 1
        node.open_now += 1
        node.most_open = max(node.most_open, node.open_now)
        node.writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r", 1)[0])
                request = head + await reader.readexactly(length)
                node.requests.append(request)
                await script(reader, writer, request)
        except (EOFError, OSError):
            pass
        finally:
            node.open_now -= 1
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    node.port = server.sockets[0].getsockname()[1]
    try:
        yield node
    finally:
        server.close()
        node.hang_up()
        await asyncio.sleep(0.01)


def _says(*pieces: bytes, then_close: bool = False, pause: float = 0) -> Script:
    async def script(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        if then_close:
            writer.close()

    return script


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    await reader.read()


@pytest.fixture
async def caller() -> AsyncIterator[HttpCaller]:
    found = HttpCaller(AddressGuard())
    yield found
    await found.close()


async def _call(
    caller: HttpCaller,
    node: Node,
    call: Call = RUN,
    *,
    seconds: float = 2,
    max_bytes: int = 1000,
) -> Reply:
    return await caller.call(node.address, call, HEADERS, seconds=seconds, max_bytes=max_bytes)


async def test_a_call_is_one_plain_post(caller: HttpCaller) -> None:
    async with _node(_says(DONE)) as node:
        assert await _call(caller, node) == Reply(200, b'{"code":200}', truncated=False)
        head, _, body = node.requests[0].partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert lines[0] == "POST /run HTTP/1.1"
        assert dict(line.split(": ", 1) for line in lines[1:]) == {
            "Host": f"127.0.0.1:{node.port}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json;charset=UTF-8",
            "XXL-JOB-ACCESS-TOKEN": "secret",
            "Content-Length": "11",
        }
        assert body == RUN.body
        await caller.call(f"{node.address}/job", kill(1), HEADERS, seconds=2)
        assert node.requests[1].startswith(b"POST /job/kill HTTP/1.1\r\n")
        assert node.connections == 1  # kept open


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\nc\r\n{"code":200}\r\n0\r\n\r\n',
        b'HTTP/1.1 200\r\nContent-Length: 12\r\n\r\n{"code":200}',
        b'HTTP/1.0 200 OK\r\n\r\n{"code":200}',
        b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"code":200}',
        b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"code":200}',
    ],
)
async def test_answers_of_each_kind_of_server(caller: HttpCaller, answer: bytes) -> None:
    close = b"chunked" not in answer and b"Content-Length" not in answer
    async with _node(_says(answer, then_close=close)) as node:
        for _ in range(2):
            assert await _call(caller, node) == Reply(200, b'{"code":200}', truncated=False)


async def test_where_nobody_listens_nothing_was_sent(caller: HttpCaller) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(ConnectionRefused):
            await caller.call(f"http://127.0.0.1:{port}", RUN, HEADERS, seconds=2)
        with pytest.raises(ConnectionRefused):
            await caller.call(f"http://localhost:{port}", RUN, HEADERS, seconds=2)


async def test_a_connection_that_does_not_come_about_sent_nothing(caller: HttpCaller) -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # its queue is full at once: more are not answered at all
        first.connect(full.getsockname())
        second.setblocking(False)
        second.connect_ex(full.getsockname())
        began = time.monotonic()
        with pytest.raises(NotSent, match="in time"):
            await caller.call(
                f"http://127.0.0.1:{full.getsockname()[1]}", RUN, HEADERS, seconds=0.5
            )
        assert 0.3 < time.monotonic() - began < 2


async def test_a_name_that_is_none_sent_nothing() -> None:
    guard = AddressGuard()
    caller = HttpCaller(guard, resolver=GuardedResolver(guard, FakeNames({})))
    with pytest.raises(NotSent, match="no such name") as found:
        await caller.call("http://billing:80", RUN, HEADERS, seconds=2)
    assert "no such name" in found.value.reason
    await caller.close()


async def test_a_server_that_speaks_no_tls_sent_nothing(caller: HttpCaller) -> None:
    async with _node(_hang) as node:
        with pytest.raises(NotSent):
            await caller.call(f"https://127.0.0.1:{node.port}", RUN, HEADERS, seconds=0.5)
        assert node.requests == []


@pytest.mark.parametrize(
    "address",
    [
        "http://8.8.8.8:80",
        "http://169.254.169.254:80",
        "http://[::ffff:169.254.169.254]:80",
        "http://[fe80::1]:80",
        "http://0.0.0.0:80",
        "http://2852039166:80",  # never normalised
        "nonsense",
    ],
)
async def test_forbidden_addresses_are_not_called(caller: HttpCaller, address: str) -> None:
    with pytest.raises(NotSent):
        await caller.call(address, RUN, HEADERS, seconds=1)


async def test_what_was_checked_is_what_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that first resolves to an allowed address, and then to a forbidden one."""
    async with _node(_says(DONE, then_close=True)) as node:
        guard = AddressGuard(("127.0.0.1/32",))
        names = FakeNames({"billing": [["127.0.0.1"], ["127.0.0.2"]]})
        caller = HttpCaller(guard, resolver=GuardedResolver(guard, names))
        monkeypatch.setattr(host_names, "KNOWN_SECONDS", 0.0)
        address = f"http://billing:{node.port}"
        assert (await caller.call(address, RUN, HEADERS, seconds=2)).status == 200
        assert names.asked == ["billing"]  # once: nothing resolves it again to connect
        assert node.requests[0].split(b"\r\n")[1] == f"Host: billing:{node.port}".encode()
        await asyncio.sleep(0.05)
        with pytest.raises(NotSent, match=r"127\.0\.0\.2 lies outside"):
            await caller.call(address, RUN, HEADERS, seconds=2)
        assert len(node.requests) == 1
        await caller.close()


async def test_a_name_is_not_resolved_for_each_connection() -> None:
    async with _node(_says(DONE, then_close=True)) as node:
        guard = AddressGuard()
        names = FakeNames({"billing": [["127.0.0.1"]]})
        caller = HttpCaller(guard, resolver=GuardedResolver(guard, names))
        for _ in range(3):
            await caller.call(f"http://billing:{node.port}", RUN, HEADERS, seconds=2)
            await asyncio.sleep(0.02)
        assert (node.connections, names.asked) == (3, ["billing"])
        await caller.close()


@pytest.mark.parametrize(
    "script",
    [
        _hang,
        _says(b"HTTP/1.1 200 OK\r\n"),
        _says(b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"code'),
        _says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"),
        _says(*[b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", *[b"x"] * 500], pause=0.02),
        _says(*[b"HTTP/1.1 200 OK\r\n", *[b"x: y\r\n"] * 500], pause=0.02),
        _says(*[b"HTTP/1.1 100 Continue\r\n\r\n"] * 500, pause=0.02),
    ],
)
async def test_silence_and_dribbling_end_in_time(caller: HttpCaller, script: Script) -> None:
    async with _node(script) as node:
        began = time.monotonic()
        with pytest.raises(NoAnswer):
            await _call(caller, node, seconds=0.3)
        assert time.monotonic() - began < 1.5
        assert len(node.requests) == 1


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"HTTP/1.1 200 OK\r\nContent-Le",),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"code',),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n{",),
        (b"220 smtp.example ESMTP\r\n",),
        (b"\x15\x03\x01\x00\x02\x02\x16",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000 + b"\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",),
    ],
)
async def test_half_answers_and_no_answers_say_nothing(
    caller: HttpCaller, pieces: tuple[bytes, ...]
) -> None:
    async with _node(_says(*pieces, then_close=True)) as node:
        with pytest.raises(NoAnswer):
            await _call(caller, node)
        assert len(node.requests) == 1


async def test_no_call_is_sent_twice_when_a_kept_connection_breaks(caller: HttpCaller) -> None:
    async def script(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> None:
        if len(node.requests) == 1:
            writer.write(DONE)
        else:
            writer.transport.abort()

    async with _node(script) as node:
        await _call(caller, node)
        with pytest.raises(NoAnswer):  # it may have been read
            await _call(caller, node)
        assert len(node.requests) == 2
        assert node.connections == 1


async def test_a_connection_that_was_closed_in_idleness_is_not_used_again(
    caller: HttpCaller,
) -> None:
    async with _node(_says(DONE, then_close=True)) as node:
        for count in range(1, 4):
            await _call(caller, node)
            await asyncio.sleep(0.02)
            assert (node.connections, len(node.requests)) == (count, count)


async def test_redirects_are_not_followed(caller: HttpCaller) -> None:
    async with _node(_says(DONE)) as target:
        for status in (301, 302, 303, 307, 308):
            moved = f"HTTP/1.1 {status} Moved\r\nLocation: {target.address}/run\r\n"
            async with _node(_says(moved.encode() + b"Content-Length: 0\r\n\r\n")) as node:
                reply = await _call(caller, node)
                assert reply.status == status
                with pytest.raises(BadAnswer, match=str(status)):
                    read_answer(reply.status, reply.body)
        assert target.connections == 0


async def test_the_next_address_of_a_name_is_tried() -> None:
    async with _node(_says(DONE)) as node:
        names = FakeNames({"billing": [["127.0.0.9", "127.0.0.1"]], "gone": [["127.0.0.9"]]})
        caller = HttpCaller(AddressGuard(), resolver=GuardedResolver(AddressGuard(), names))
        address = f"http://billing:{node.port}"
        assert (await caller.call(address, RUN, HEADERS, seconds=2)).status == 200
        with pytest.raises(ConnectionRefused):
            await caller.call(f"http://gone:{node.port}", RUN, HEADERS, seconds=2)
        await caller.close()


async def test_idle_connections_are_closed_before_their_server_does(
    caller: HttpCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "KEPT_SECONDS", 0.05)
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.02)
    async with _node(_says(DONE)) as node:
        await asyncio.gather(*(_call(caller, node) for _ in range(3)))
        assert node.open_now == 3
        await wait_until_async(lambda: node.open_now == 0)
        await _call(caller, node)
        assert node.connections == 4


async def test_no_header_can_be_smuggled_in(caller: HttpCaller) -> None:
    async with _node(_says(DONE)) as node:
        for token in ("a\r\nX: y", "a\n", "\0"):
            told = headers(Dialect.A, token, "billing")
            with pytest.raises(NotSent, match="control character"):
                await caller.call(node.address, RUN, told, seconds=2)
        assert node.connections == 0
        # A token that was changed counts from the next call on.
        for token in ("one", "two"):
            await caller.call(node.address, RUN, headers(Dialect.A, token, "b"), seconds=2)
            assert f"XXL-JOB-ACCESS-TOKEN: {token}\r\n".encode() in node.requests[-1]


async def test_what_comes_unasked_ends_the_connection(caller: HttpCaller) -> None:
    """Else it would be taken for the answer to the next call."""
    async with _node(_says(DONE + DONE)) as node:
        for count in (1, 2):
            assert (await _call(caller, node)).status == 200
            assert node.connections == count
    async with _node(_says(DONE, b"", DONE, pause=0.02)) as node:
        await _call(caller, node)
        await wait_until_async(lambda: node.open_now == 0)


async def test_proxies_of_the_environment_are_not_used(
    caller: HttpCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with _node(_says(DONE)) as node:
        assert (await _call(caller, node)).status == 200


async def test_cookies_are_not_kept(caller: HttpCaller) -> None:
    answer = DONE.replace(b"\r\n", b"\r\nSet-Cookie: a=b; Path=/\r\n", 1)
    async with _node(_says(answer)) as node:
        await _call(caller, node)
        await _call(caller, node)
        assert b"cookie" not in node.requests[1].lower()


async def test_an_answer_is_cut_at_its_bound(caller: HttpCaller) -> None:
    for size, truncated in ((999, False), (1000, False), (500_000, True)):
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
        async with _node(_says(head + b"x" * size)) as node:
            reply = await _call(caller, node)
            assert reply == Reply(200, b"x" * min(size, 1000), truncated=truncated)
            await asyncio.sleep(0.05)
            assert node.open_now == (0 if truncated else 1)
            await _call(caller, node)
            assert node.connections == (2 if truncated else 1)
    async with _node(
        _says(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001)
    ) as node:
        assert await _call(caller, node) == Reply(200, b"x" * 1000, truncated=True)


async def test_an_endless_answer_costs_what_was_asked_for(caller: HttpCaller) -> None:
    sent = 0

    async def endless(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
            await writer.drain()
            sent += 0x100000

    async with _node(endless) as node:
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        reply = await _call(caller, node, max_bytes=1_000_000)
        assert reply.truncated
        assert len(reply.body) == 1_000_000
        await asyncio.sleep(0.05)
        assert node.open_now == 0
        assert sent < 50_000_000
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


async def test_packed_answers_are_not_unpacked(caller: HttpCaller) -> None:
    packed = gzip.compress(b" " * 100_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    async with _node(_says(head.encode() + packed)) as node:
        reply = await _call(caller, node, max_bytes=1_000_000)
        assert reply.body == packed
        with pytest.raises(BadAnswer, match="no JSON"):
            read_answer(reply.status, reply.body)


async def test_a_node_has_no_more_connections_than_its_share(caller: HttpCaller) -> None:
    async with _node(_says(b"", DONE, pause=0.02)) as node:
        calls = [_call(caller, node, kill(number)) for number in range(100)]
        assert {reply.status for reply in await asyncio.gather(*calls)} == {200}
        assert node.most_open == MAX_CALLS_PER_NODE
        assert len(node.requests) == 100


async def test_urgent_calls_pass_a_queue_of_others(caller: HttpCaller) -> None:
    async def only_urgent(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> None:
        if request.startswith(b"POST /run"):
            await reader.read()
        writer.write(DONE)

    async with _node(only_urgent) as node:
        runs = [asyncio.create_task(_call(caller, node, seconds=5)) for _ in range(50)]
        await asyncio.sleep(0.05)
        began = time.monotonic()
        for call in (beat(), kill(1)):
            assert (await _call(caller, node, call)).status == 200
        assert time.monotonic() - began < 0.5
        assert node.most_open < MAX_CALLS_PER_NODE
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        # Their places came free.
        assert (await _call(caller, node, beat())).status == 200
        assert not caller._nodes[node.address].places.is_in_use


async def test_a_call_for_which_no_place_came_free_was_not_sent(caller: HttpCaller) -> None:
    async with _node(_hang) as node:
        calls = [_call(caller, node, seconds=0.3) for _ in range(30)]
        ends = [type(end) for end in await asyncio.gather(*calls, return_exceptions=True)]
        assert ends.count(NoAnswer) == len(node.requests) == 16
        assert ends.count(NotSent) == 14
        # A node that is silent keeps few places, until it answers again.
        calls = [_call(caller, node, seconds=0.3) for _ in range(30)]
        ends = [type(end) for end in await asyncio.gather(*calls, return_exceptions=True)]
        assert (ends.count(NoAnswer), ends.count(NotSent)) == (2, 28)
        assert not caller._nodes[node.address].places.is_in_use


async def test_nodes_that_hang_cost_the_others_nothing(caller: HttpCaller) -> None:
    async with _node(_hang) as first, _node(_hang) as second, _node(_says(DONE)) as good:
        stuck = [
            asyncio.create_task(_call(caller, node, seconds=5))
            for node in (first, second)
            for _ in range(200)
        ]
        await asyncio.sleep(0.05)
        slowest = 0.0
        for _ in range(100):
            began = time.monotonic()
            await asyncio.gather(*(_call(caller, good) for _ in range(5)))
            slowest = max(slowest, time.monotonic() - began)
        assert slowest < 0.5
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)


async def test_vanished_nodes_hold_up_only_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a rack is gone: connections to it do not come about, and end after seconds."""
    for name in ("MAX_BEATS", "MAX_ORDERS", "MAX_LOGS", "MAX_SILENT"):
        monkeypatch.setattr(module, name, 4)
    caller = HttpCaller(AddressGuard())
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("0.0.0.0", 0))  # as many addresses as the rack has
        full.listen(0)  # its queue is full at once: more are not answered at all
        port = full.getsockname()[1]
        for each in (first, second):
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        rack = [f"http://127.0.1.{number}:{port}" for number in range(1, 13)]
        async with _node(_says(DONE)) as good:
            found = await asyncio.gather(
                *(caller.call(each, beat(), HEADERS, seconds=0.2) for each in rack),
                return_exceptions=True,
            )
            assert {type(each) for each in found} == {NotSent}
            stuck = [
                asyncio.create_task(caller.call(each, call, HEADERS, seconds=30))
                for each in rack
                for call in (beat(), RUN, LOG)
            ]
            await asyncio.sleep(0.05)
            for call in (beat(), RUN, kill(1), LOG):
                assert (await _call(caller, good, call)).status == 200
            assert not any(each.done() for each in stuck)
            for each in stuck:
                each.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
    await caller.close()


async def test_logs_hold_up_no_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LOGS", 2)
    caller = HttpCaller(AddressGuard())
    async with _node(_hang) as slow, _node(_says(DONE)) as good:
        logs = [
            asyncio.create_task(_call(caller, node, LOG, seconds=30)) for node in (slow, slow, good)
        ]
        await asyncio.sleep(0.05)
        for call in (beat(), RUN, kill(1)):
            assert (await _call(caller, good, call)).status == 200
        assert not any(each.done() for each in logs)
        for each in logs:
            each.cancel()
        await asyncio.gather(*logs, return_exceptions=True)
    await caller.close()


async def test_a_beat_tells_whether_the_last_one_s_connection_was_there_still(
    caller: HttpCaller,
) -> None:
    async with _node(_says(DONE)) as node:
        assert (await _call(caller, node, beat())).is_new_connection
        await _call(caller, node, RUN)
        assert not (await _call(caller, node, beat())).is_new_connection
        node.hang_up()
        await asyncio.sleep(0.05)
        assert (await _call(caller, node, beat())).is_new_connection


async def test_waiting_counts_into_the_time_of_a_call(caller: HttpCaller) -> None:
    async with _node(_says(b"", DONE, pause=0.3)) as node:
        began = time.monotonic()
        calls = [_call(caller, node, seconds=0.8) for _ in range(64)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert time.monotonic() - began < 1.5
        assert all(isinstance(end, Reply | NoAnswer | NotSent) for end in ends)
        assert any(isinstance(end, Reply) for end in ends)


async def test_many_addresses_are_not_remembered_for_ever(
    caller: HttpCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.xxl_job.caller._MAX_NODES", 10)
    async with _node(_says(DONE)) as node:
        for number in range(100):
            await caller.call(f"{node.address}/{number}", RUN, HEADERS, seconds=2)
        assert len(caller._nodes) <= 10


async def test_closing_breaks_off_what_is_under_way() -> None:
    caller = HttpCaller(AddressGuard())
    async with _node(_hang) as node:
        call = asyncio.create_task(_call(caller, node, seconds=5))
        await asyncio.sleep(0.05)
        await caller.close()
        with pytest.raises(NoAnswer):
            await call
        with pytest.raises(NotSent):
            await _call(caller, node)
