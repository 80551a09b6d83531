"""Handlers that log without measure: nobody suffers, and the log says what it lacks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.executor_sdk.scripted_admin import ScriptedAdmin, make_node, request
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Executor, Run
from tickwheel_executor.logs import shipper as log_shipper
from tickwheel_executor.logs.lines import LogLimit
from tickwheel_executor.run.log import RunLog
from tickwheel_executor.runner.node_connection import NodeConnection
from tickwheel_executor.runner.process_wire import ProgressReport, ReadySignal, frame_of
from tickwheel_executor.testing import FakeAdmin, HandlerEnd, run_handler
from tickwheel_shared.protocol import LogChunk, Result, WireLine

Make = Callable[..., Executor]


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    with FakeAdmin(heartbeat_seconds=0.1, lease_seconds=5.0, within_seconds=60.0) as admin:
        yield admin


@pytest.fixture
def make(admin: FakeAdmin, tmp_path: Path) -> Iterator[Make]:
    made: list[Executor] = []

    def make(**settings: Any) -> Executor:
        made.append(
            Executor("b", admins=[admin.url], token=admin.token, spool_dir=tmp_path, **settings)
        )
        return made[-1]

    yield make
    for executor in made:
        executor.stop()


def texts(end: HandlerEnd) -> list[str]:
    return [line.text for line in end.log]


def test_what_goes_beyond_the_cap_is_left_out_and_counted(admin: FakeAdmin, make: Make) -> None:
    executor = make(max_log_mb=1)

    @executor.handler("chatty")
    def chatty(run: Run) -> None:
        for number in range(3_000):
            run.log.info("%06d %s", number, "é" * 500)  # 1,008 bytes with the newline
        raise ValueError("why it failed is told all the same")

    executor.start()
    end = admin.run("chatty").result()
    rule = "one attempt may write 1 MiB (`max_log_mb` of the Executor)"
    kept = 1024 * 1024 // 1_008
    assert [text[:6] for text in texts(end)[:kept]] == [f"{number:06}" for number in range(kept)]
    assert texts(end)[kept] == f"the log is full, further lines are left out: {rule}"
    assert texts(end)[-1] == f"{3_000 - kept:,} lines were left out: {rule}"
    assert texts(end)[-2] == "ValueError: why it failed is told all the same"
    assert end.outcome == "failed"


def test_neither_empty_lines_nor_errors_get_around_the_cap(admin: FakeAdmin, make: Make) -> None:
    executor = make(max_log_mb=1)

    @executor.handler("empty")
    def empty(run: Run) -> None:
        between_two = "x{}x".format("\n" * 999)
        for _ in range(60):
            run.log.info("\n" * 1_000)
            run.log.info(between_two)

    @executor.handler("errors")
    def errors(run: Run) -> None:
        for _ in range(200):
            run.log.error("e" * 10_000)

    executor.start()
    assert len(admin.run("empty").result().log) <= 1024 * 1024 // 20 + 2
    assert len(admin.run("errors").result().log) <= (1024 + 256) * 1024 // 10_000 + 2


def test_a_thread_that_logs_as_fast_as_it_can_is_slowed_and_harms_nobody(
    admin: FakeAdmin, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tickwheel")
    executor, enough = make(), threading.Event()
    most = 0

    @executor.handler("flood")
    def flood(run: Run) -> int:
        nonlocal most
        written = 0
        while not enough.is_set():
            run.log.info("x" * 10_000)
            written += 1
            most = max(most, run.log.buffered)
        return written

    @executor.handler("neighbour")
    async def neighbour() -> str:
        await asyncio.sleep(0.02)
        return "well"

    executor.start()
    flooding = admin.begin("flood").result()
    for _ in range(20):
        assert admin.run("neighbour").result().result == "well"
    enough.set()
    end = flooding.end().result()
    assert end.result * 10_000 > 3 * most  # else nothing of this was tried
    assert most < log_shipper.RUN_HARD_CHARS
    assert len(end.log) == end.result  # slowed, and nothing dropped
    assert caplog.text.count("connected to admin") == 1
    assert "breaking off" not in caplog.text


def test_an_async_handler_that_never_awaits_is_held_within_bounds(
    admin: FakeAdmin, make: Make
) -> None:
    executor = make()

    @executor.handler("flood")
    async def flood(run: Run) -> int:
        most = 0
        for number in range(20_000):
            run.log.info("%d %s", number, "y" * 1_000)
            most = max(most, run.log.buffered)
        return most

    @executor.handler("neighbour")
    async def neighbour() -> str:
        return "well"

    executor.start()
    end = admin.run("flood").result()
    assert end.result <= log_shipper.RUN_HARD_CHARS
    kept = len(end.log) - 1
    assert [text.split()[0] for text in texts(end)[:-1]] == [str(each) for each in range(kept)]
    assert texts(end)[-1] == (
        f"{20_000 - kept} lines were dropped here: written faster than an admin could take them"
    )
    assert admin.run("neighbour").result().result == "well"


def test_one_text_of_millions_of_lines_is_not_made_into_lines_at_once(
    admin: FakeAdmin, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = make()
    most = 0

    def counting(text: str, *arguments: Any) -> Any:
        nonlocal most
        most = max(most, len(text))
        return lines_of(text, *arguments)

    lines_of = log_shipper.lines_of
    monkeypatch.setattr(log_shipper, "lines_of", counting)

    @executor.handler("table")
    def table(run: Run) -> None:
        run.log.info("\n".join(f"row {number}" for number in range(100_000)))

    executor.start()
    assert texts(admin.run("table").result()) == [f"row {number}" for number in range(100_000)]
    assert most < 100_000


@virtual_time
async def test_a_long_log_has_neither_gap_nor_double_whatever_breaks_meanwhile() -> None:
    count = 120_000

    async def work(run: Run) -> None:
        for number in range(count):
            run.log.info("line %d", number)
            if number % 100 == 99:
                await asyncio.sleep(0.01)

    admins = [ScriptedAdmin(), ScriptedAdmin("admin-2", url="http://admin-2:8500")]
    node = make_node(*admins, handlers={"work": work})
    await node.start()
    (await admins[0].session()).send(request())
    loop = asyncio.get_running_loop()
    breaks = 0
    while not any(isinstance(message, Result) for each in admins for message in each.journal):
        admin = admins[breaks % 2]
        admin.keeps_log = False  # what comes now has no receipt when the socket breaks
        await asyncio.sleep(0.3)
        breaks += 1
        admin.sessions[-1].channel.abort()
        admin.keeps_log = True
        await asyncio.sleep(0.9)
        assert loop.time() < 600
    assert await node.drain(10)

    chunks = [
        message for each in admins for message in each.journal if isinstance(message, LogChunk)
    ]
    by_seq: dict[int, LogChunk] = {}
    for chunk in chunks:
        assert by_seq.setdefault(chunk.first_seq, chunk) == chunk  # resent unchanged
    assert len(chunks) > len(by_seq)  # some were resent
    assert breaks > 8
    written: list[str] = []
    for first_seq in sorted(by_seq):
        assert first_seq == len(written) + 1
        written += [line.text for line in by_seq[first_seq].lines]
    assert written == [f"line {number}" for number in range(count)]


# --- Python cleans up objects wherever it likes, and these may log and warn -----------------------


def test_what_is_logged_while_a_line_is_put_down_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admit = LogLimit.admit

    def admit_and_clean_up(self: LogLimit, log: RunLog, lines: list[WireLine], at: int) -> Any:
        if lines[0].text == "first":
            log.warning("an unclosed file")
        return admit(self, log, lines, at)

    def work(run: Run) -> None:
        run.log.info("first")
        run.log.info("second")

    monkeypatch.setattr(LogLimit, "admit", admit_and_clean_up)
    assert texts(run_handler(work).result()) == ["first", "an unclosed file", "second"]


def test_what_is_logged_while_a_process_sends_is_sent_as_well() -> None:
    sent: list[bytes] = []

    def sendall(data: bytes) -> None:
        sent.append(data)
        if len(sent) == 1:
            line.send(ReadySignal())

    connection: Any = SimpleNamespace(sendall=sendall)
    interrupt: Any = SimpleNamespace(deferred=nullcontext)
    line = NodeConnection(connection, interrupt)
    line.send(ProgressReport(0.5, "half"))
    assert sent == [frame_of(ProgressReport(0.5, "half")), frame_of(ReadySignal())]
