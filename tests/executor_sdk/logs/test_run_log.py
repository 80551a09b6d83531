"""Log lines: in order, resent unchanged, bounded in memory, from anywhere in a handler."""

from __future__ import annotations

import asyncio
import logging
import threading

from tests.executor_sdk.scripted_admin import (
    ScriptedAdmin,
    Session,
    connect,
    make_node,
    request,
    value,
)
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Run
from tickwheel_executor.logs import shipper as log_shipper
from tickwheel_executor.logs.capture import capture
from tickwheel_shared.protocol import (
    MAX_LINE_CHARS,
    MAX_LINES_PER_CHUNK,
    Accepted,
    Level,
    LogChunk,
    LogReceipt,
    Result,
)


def lines_of(session: Session) -> list[tuple[int, str, str]]:
    """(seq, level, text) of all lines, each seq once; a seq with two texts fails."""
    lines: dict[int, tuple[int, str, str]] = {}
    for chunk in session.all(LogChunk):
        for seq, line in enumerate(chunk.lines, start=chunk.first_seq):
            entry = (seq, str(line.level), line.text)
            assert lines.setdefault(seq, entry) == entry
    assert sorted(lines) == list(range(1, len(lines) + 1))
    return [lines[seq] for seq in sorted(lines)]


@virtual_time
async def test_lines_arrive_before_the_result_with_level_and_number() -> None:
    async def work(run: Run) -> None:
        run.log.debug("a")
        run.log.info("sent %d of %d", 3, 10)
        await asyncio.sleep(1)
        run.log.warning("100 % done")  # no args: taken as it is
        run.log.error("第一行\r\n第二行\n")
        try:
            raise KeyError("k")
        except KeyError:
            run.log.exception("look")

    _, node, session = await connect({"work": work})
    session.send(request())
    result = await session.expect(Result)
    lines = lines_of(session)

    assert lines[:5] == [
        (1, "debug", "a"),
        (2, "info", "sent 3 of 10"),
        (3, "warning", "100 % done"),
        (4, "error", "第一行"),
        (5, "error", "第二行"),
    ]
    assert lines[5][2] == "look"
    assert lines[-1][2] == "KeyError: 'k'"
    assert result.log_lines == len(lines)
    assert len(session.all(LogChunk)) == 2  # what was written together travelled together
    assert session.all(LogChunk)[0].token == "token-1-1"
    assert session.received.index(session.all(LogChunk)[-1]) < session.received.index(result)
    assert await node.drain(1)


@virtual_time
async def test_what_cannot_be_stored_is_replaced_and_long_lines_are_cut() -> None:
    async def work(run: Run) -> None:
        run.log.info("a\x00b\ud800c")
        run.log.info("x" * 20_000)

    _, node, session = await connect({"work": work})
    session.send(request())
    await session.expect(Result)
    (_, _, first), (_, _, second) = lines_of(session)
    assert first == "a\ufffdb?c"
    assert len(second) == MAX_LINE_CHARS
    assert second.endswith("[cut, 20000 characters]")
    await node.drain(1)


@virtual_time
async def test_chunks_are_resent_unchanged_until_their_receipt() -> None:
    async def work(run: Run) -> None:
        for number in range(1200):
            run.log.info("line %d", number)
        await asyncio.sleep(3)
        run.log.info("last")

    admin = ScriptedAdmin()
    admin.keeps_log = False
    _, node, session = await connect({"work": work}, admin=admin)
    session.send(request())
    await session.expect(LogChunk)
    await asyncio.sleep(1)
    first = session.all(LogChunk)
    assert [len(chunk.lines) for chunk in first] == [MAX_LINES_PER_CHUNK, MAX_LINES_PER_CHUNK, 200]
    session.send(LogReceipt(run=1, attempt=1, first_seq=501))
    await asyncio.sleep(0.1)
    session.close()  # two have no receipt
    second = await admin.session(1)
    await second.expect(Result)
    assert second.all(LogChunk)[:2] == [first[0], first[2]]
    await asyncio.sleep(10)
    again = second.all(LogChunk)  # and once more, without a new socket
    assert [again.count(chunk) for chunk in first] == [2, 0, 2]
    await node.drain(1)


@virtual_time
async def test_an_async_handler_waits_at_its_next_await_while_its_log_is_full() -> None:
    written = 0

    async def work(run: Run) -> None:
        nonlocal written
        while written < 6000:
            run.log.info("y" * 1000)
            written += 1
            await asyncio.sleep(0)

    admin = ScriptedAdmin()
    admin.keeps_log = False
    _, node, session = await connect({"work": work}, admin=admin)
    session.send(request())
    await asyncio.sleep(5)
    soft = log_shipper.RUN_SOFT_CHARS // 1064
    assert soft <= written <= soft + 2  # it stands still
    admin.keeps_log = True
    for chunk in session.all(LogChunk):
        session.send(LogReceipt(run=1, attempt=1, first_seq=chunk.first_seq))
    result = await session.expect(Result)
    assert result.log_lines == len(lines_of(session)) == 6000  # slowed, not dropped
    assert await node.drain(1)


@virtual_time
async def test_a_handler_that_waits_for_its_log_can_be_timed_out() -> None:
    async def work(run: Run) -> None:
        while True:
            run.log.info("y" * 1000)
            await asyncio.sleep(0)

    admin = ScriptedAdmin()
    admin.keeps_log = False
    _, node, session = await connect({"work": work}, admin=admin)
    session.send(request(timeout_ms=2000))
    assert (await session.expect(Result)).outcome == "timed_out"
    await node.drain(0)


@virtual_time
async def test_without_an_admin_lines_are_dropped_and_counted_and_the_work_goes_on() -> None:
    async def work(run: Run) -> str:
        await asyncio.sleep(15)  # longer than anybody waits for an admin
        for _ in range(10_000):
            run.log.info("z" * 1000)
            await asyncio.sleep(0)
        return "done"

    admin, node, session = await connect({"work": work})
    session.send(request())
    await session.expect(Accepted)
    admin.up = False
    session.close()
    await asyncio.sleep(30)
    admin.up = True
    second = await admin.session(1)
    result = await second.expect(Result)
    await asyncio.sleep(1)
    lines = lines_of(second)
    kept = len(lines) - 1
    assert 3500 < kept < 4000
    assert lines[-1][1:] == (
        "warning",
        f"{10_000 - kept} lines were dropped here: written faster than an admin could take them",
    )
    assert result.log_lines == len(lines)
    assert await node.drain(1)


async def test_a_thread_waits_inside_its_log_call_while_its_log_is_full() -> None:
    written = 0

    def work(run: Run) -> None:
        nonlocal written
        while written < 3000:
            run.log.info("y" * 1000)
            written += 1

    admin = ScriptedAdmin()
    admin.keeps_log = False
    _, node, session = await connect({"work": work}, admin=admin)
    session.send(request())
    await session.expect(LogChunk)
    before = -1
    while written != before:  # until it stands still
        before = written
        await asyncio.sleep(0.3)
    assert 900 < written < 1100
    admin.keeps_log = True
    for chunk in session.all(LogChunk):
        session.send(LogReceipt(run=1, attempt=1, first_seq=chunk.first_seq))
    result = await session.expect(Result)
    assert result.log_lines == len(lines_of(session)) == 3000
    assert await node.drain(1)


async def test_standard_logging_inside_a_handler_goes_to_its_run() -> None:
    logger = logging.getLogger("some.library")
    logger.setLevel(logging.DEBUG)

    async def work(run: Run) -> None:
        logger.info("in run %d", run.id)
        await asyncio.gather(deeper(), asyncio.to_thread(logger.warning, "from a thread"))
        logging.getLogger("tickwheel.node").warning("about the node, not the run")
        try:
            raise ValueError("bad")
        except ValueError:
            logger.exception("failed in %s", "part")

    async def deeper() -> None:
        logger.debug("in a child")

    def plain(run: Run) -> None:
        logger.error("in run %d", run.id)

    admin = ScriptedAdmin()
    node = make_node(admin, handlers={"work": work, "plain": plain})
    capture.begin()
    try:
        await node.start()
        session = await admin.session()
        logger.warning("outside of any run")
        session.send(request(1), request(2, handler="plain"))
        await session.expect(Result)
        await session.expect(Result)
        assert await node.drain(1)
    finally:
        capture.end()
    by_run: dict[int, list[tuple[str, str]]] = {1: [], 2: []}
    for chunk in session.all(LogChunk):
        by_run[chunk.run] += [(line.level, line.text) for line in chunk.lines]
    assert by_run[2] == [(Level.ERROR, "in run 2")]
    assert by_run[1][0] == (Level.INFO, "in run 1")
    assert sorted(by_run[1][1:3]) == [(Level.DEBUG, "in a child"), (Level.WARNING, "from a thread")]
    assert by_run[1][3] == (Level.ERROR, "failed in part")
    assert by_run[1][-1] == (Level.ERROR, "ValueError: bad")


@virtual_time
async def test_lines_after_the_end_of_an_attempt_are_not_taken() -> None:
    leaked: list[Run] = []

    async def work(run: Run) -> None:
        run.log.info("in time")
        leaked.append(run)

    _, node, session = await connect({"work": work})
    session.send(request())
    await session.expect(Result)
    leaked[0].log.info("too late")
    await asyncio.sleep(5)
    assert [text for _, _, text in lines_of(session)] == ["in time"]
    assert await node.drain(1)


def test_a_waiting_thread_does_not_keep_others_from_logging() -> None:
    # The Handler's own lock would be held while a thread waits for room.
    entered, release = threading.Event(), threading.Event()

    class Log:
        mask = None

        def write(self, level: Level, text: str) -> None:
            if text == "waits":
                entered.set()
                release.wait(10)

    class FakeRun:
        log = Log()

    from tickwheel_executor.run.context import running

    def log(text: str) -> None:
        running.set(FakeRun())  # type: ignore[arg-type]
        logging.getLogger("any").error(text)

    capture.begin()
    try:
        waiting = threading.Thread(target=log, args=("waits",))
        waiting.start()
        assert entered.wait(5)
        other = threading.Thread(target=log, args=("passes",))
        other.start()
        other.join(5)
        assert not other.is_alive()
    finally:
        release.set()
        waiting.join(5)
        capture.end()


@virtual_time
async def test_a_broken_connection_is_waited_for_and_leaves_no_gap_at_any_speed() -> None:
    async def work(run: Run) -> None:
        for number in range(40_000):
            run.log.info("%05d %s", number, "z" * 200)
            await asyncio.sleep(0)

    admin, node, session = await connect({"work": work})
    session.send(request())
    await session.expect(LogChunk)
    admin.up = False
    session.channel.abort()
    await asyncio.sleep(log_shipper.PATIENCE_SECONDS - 5)  # and then its next attempt comes
    admin.up = True
    second = await admin.session(1)
    result = await second.expect(Result)
    chunks = {each.first_seq: each for each in admin.journal if isinstance(each, LogChunk)}
    texts = [line.text[:5] for seq in sorted(chunks) for line in chunks[seq].lines]
    assert texts == [f"{number:05}" for number in range(40_000)]
    assert result.log_lines == 40_000
    assert await node.drain(1)


@virtual_time
async def test_who_waits_for_an_admin_goes_on_when_it_stays_away() -> None:
    async def work(run: Run) -> float:
        for _ in range(10_000):
            run.log.info("z" * 1000)
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    admin, node, session = await connect({"work": work})
    loop = asyncio.get_running_loop()
    session.send(request())
    await session.expect(Accepted)
    admin.up = False
    session.channel.abort()
    broken_at = loop.time()
    await asyncio.sleep(30)
    admin.up = True
    second = await admin.session(1)
    ended_at = value(await second.expect(Result))
    assert 0 <= ended_at - broken_at - log_shipper.PATIENCE_SECONDS <= 1.5
    assert await node.drain(1)
