"""What waits to be recorded is bounded, in messages and in text, and taken in turns."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from tests.admin.kit.engine import Admin
from tests.admin.kit.messages import result
from tests.admin.kit.rows import add_job, ask, get_run
from tickwheel_admin.engine.recorder import inbox
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import (
    Cancel,
    Held,
    Level,
    LogChunk,
    LogReceipt,
    Outcome,
    Result,
    ResultReceipt,
    RunKey,
    WireLine,
)


async def test_sockets_are_not_read_while_too_much_text_waits(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1)
    await ask(database, await add_job(database))
    [request] = await admin.dispatch_all(node)

    def chunk(seq: int) -> LogChunk:
        line = WireLine(at=1, level=Level.INFO, text="x" * 60)
        return LogChunk(
            run=request.run,
            attempt=request.attempt,
            token=request.token,
            first_seq=seq,
            lines=[line],
        )

    engine = admin.engine.recorder
    with (
        patch.object(inbox, "MAX_WAITING_TEXT", 300),
        patch.object(inbox, "TEXT_PER_BATCH", 50),
    ):
        engine.receive(node, [chunk(1)])
        assert engine._waiting.has_room_for(node)
        engine.receive(node, [chunk(2)])
        assert not engine._waiting.has_room_for(node)

        assert await engine.run_once()  # one of them: more than a batch shall take
        assert engine._waiting.has_room_for(node)
        assert engine.backlog == 1
        assert not await engine.run_once()

    assert [m.first_seq for m in node.sent if isinstance(m, LogReceipt)] == [1, 2]


def unknown(run: int) -> Result:
    return Result(
        run=run, attempt=1, token="none", outcome=Outcome.SUCCEEDED, duration_ms=1, log_lines=0
    )


async def test_a_result_that_the_database_refuses_costs_no_other_of_its_batch(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1)
    job_id = await add_job(database)
    for _ in range(4):
        await ask(database, job_id)
    requests = await admin.dispatch_all(node)

    def refuse(conn: sa.Connection) -> None:
        conn.exec_driver_sql(
            "CREATE TRIGGER refuse BEFORE UPDATE ON run WHEN NEW.result = '\"poison\"'"
            " BEGIN SELECT RAISE(ABORT, 'poison is not stored'); END"
        )

    await database.run(refuse)
    values = ["one", "two", "poison", "four"]
    with capture_logs() as logs:
        await admin.say(
            node, *(result(each, value=value) for each, value in zip(requests, values, strict=True))
        )

    found = [await get_run(database, each.run) for each in requests]
    stored = [("succeeded", f'"{value}"') for value in values]
    stored[2] = ("failed", "null")
    assert [(each.state, each.result) for each in found] == stored
    assert found[2].message == "The result could not be stored; the admin's log says why."
    assert [receipt.run for receipt in node.take(ResultReceipt)] == [each.run for each in requests]
    assert [each["type"] for each in logs if each["event"] == "report.unstorable"] == ["Result"]


async def test_a_node_that_says_very_much_waits_for_itself_and_is_told_of_in_one_line(
    database: Database, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    flooding, ordinary = await admin.add_node(1), await admin.add_node(2)
    await ask(database, await add_job(database, executor_id=2))
    [request] = await admin.dispatch_all(ordinary)
    engine = admin.engine.recorder
    with capture_logs() as logs:
        monkeypatch.setattr(inbox, "SUSPECT_REST_SECONDS", 0)
        engine.receive(flooding, [unknown(run) for run in range(10**9, 10**9 + 5_000)])
        engine.receive(ordinary, [result(request)])
        assert not engine._waiting.has_room_for(flooding)  # its socket is not read
        assert engine._waiting.has_room_for(ordinary)

        assert await engine.run_once()
        [receipt] = [m for m in ordinary.sent if isinstance(m, ResultReceipt)]
        assert receipt.receipt == "recorded"  # though thousands came before it
        while await engine.run_once():
            pass
    assert len([m for m in flooding.sent if isinstance(m, ResultReceipt)]) == 5_000
    told = [entry for entry in logs if entry["event"] == "report.ignored"]
    assert len(told) <= 11  # one for each batch
    assert sum(entry["count"] for entry in told) == 5_000
    assert all(len(entry["run_ids"]) == 5 for entry in told)


async def test_the_sockets_of_others_are_read_while_suspects_fill_their_room(
    database: Database, admin: Admin
) -> None:
    flooding, ordinary = await admin.add_node(1), await admin.add_node(2)
    new = await admin.add_node(3)
    await ask(database, await add_job(database, executor_id=2))
    [request] = await admin.dispatch_all(ordinary)
    engine = admin.engine.recorder
    with patch.object(inbox, "MAX_WAITING", 1_000), capture_logs():
        engine.receive(ordinary, [result(request)])
        engine.receive(flooding, [unknown(run) for run in range(10**9, 10**9 + 1_600)])
        assert not engine._waiting.has_room_for(new)  # nobody knows any of them yet
        await engine.run_once()
        waiting = engine._waiting
        assert engine.backlog == 1_100
        assert not waiting.has_room_for(flooding)
        assert waiting.has_room_for(ordinary)
        assert waiting.has_room_for(new)


async def test_a_node_that_holds_very_much_is_taken_in_piece_by_piece(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1)
    await ask(database, await add_job(database))
    [request] = await admin.dispatch_all(node)
    held = [RunKey(run=run, attempt=1, token="none") for run in range(10**9, 10**9 + 3_000)]
    held.append(RunKey(run=request.run, attempt=request.attempt, token=request.token))
    engine = admin.engine.recorder
    opened: list[bool] = []
    with (
        patch.object(node, "opened", lambda: opened.append(True)),
        patch.object(inbox, "SUSPECT_REST_SECONDS", 0),
        capture_logs() as logs,
    ):
        engine.receive(node, [Held(runs=held)])
        batches = 1
        while await engine.run_once():
            assert not opened  # it is given runs when all that it holds is known
            batches += 1
    assert opened == [True]
    assert batches == 7
    stopped = [m.run for m in node.sent if isinstance(m, Cancel)]
    assert len(stopped) == 3_000
    assert request.run not in stopped
    assert len([entry for entry in logs if entry["event"] == "report.ignored"]) <= batches


async def test_who_says_nothing_but_rubbish_is_heard_less_often_and_still_answered(
    database: Database, admin: Admin
) -> None:
    node, other = await admin.add_node(1), await admin.add_node(2)
    await ask(database, await add_job(database, executor_id=2))
    engine = admin.engine.recorder
    with capture_logs():
        engine.receive(node, [unknown(run) for run in range(10**9, 10**9 + 1_200)])
        assert await engine.run_once()  # its first batch: nobody knows it yet
        assert not await engine.run_once()  # a suspect by now: nothing to do until it has rested
        assert engine.backlog == 200
        [request] = await admin.dispatch_all(other)
        engine.receive(other, [result(request)])
        await engine.run_once()  # others are heard meanwhile
        assert [m.receipt for m in other.sent if isinstance(m, ResultReceipt)] == ["recorded"]
        engine._waiting._suspects_at = 0.0
        while await engine.run_once():
            pass
    assert len([m for m in node.sent if isinstance(m, ResultReceipt)]) == 1_200


async def test_what_a_suspect_leaves_behind_is_dropped(database: Database, admin: Admin) -> None:
    node, other = await admin.add_node(1), await admin.add_node(2)
    await ask(database, await add_job(database, executor_id=2))
    engine = admin.engine.recorder
    with capture_logs() as logs:
        engine.receive(node, [unknown(run) for run in range(10**9, 10**9 + 1_200)])
        engine.disconnected(node)
        assert engine.backlog == 1_200  # nobody knows it yet: all of it may be results
        await engine.run_once()
        assert engine.backlog == 0

        [request] = await admin.dispatch_all(other)
        engine.receive(other, [result(request)])
        engine.disconnected(other)  # it closed right after it had said what counts
        await engine.run_once()
    assert [entry["count"] for entry in logs if entry.get("reason") == "suspect_left"] == [700]
    assert [m.receipt for m in other.sent if isinstance(m, ResultReceipt)] == ["recorded"]
