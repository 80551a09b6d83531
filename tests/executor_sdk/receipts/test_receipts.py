"""Receipts on each kind of database and of connection: an effect is done once, or not at all."""

from __future__ import annotations

import contextlib
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tickwheel_executor import AlreadyDone, Executor, Run
from tickwheel_executor.receipts import create_receipt_table, purge_receipts, receipt_table_ddl
from tickwheel_executor.testing import HandlerEnd, run_handler

from . import process_service
from .bank import CREDIT, DEBIT, Bank, move

KINDS = ("connection", "session", "plain")


def transfer(bank: Bank, kind: str) -> Any:
    """A handler that moves money on this kind of connection."""

    def on_connection(run: Run) -> Any:
        with bank.engine.begin() as connection:
            receipt = run.receipt(connection)
            move(connection)
            return receipt.save_result({"moved": 10, "to": "Müller"})

    def on_session(run: Run) -> Any:
        with Session(bank.engine) as session, session.begin():
            receipt = run.receipt(session)
            session.execute(sa.text(DEBIT))
            session.execute(sa.text(CREDIT))
            return receipt.save_result({"moved": 10, "to": "Müller"})

    def on_plain(run: Run) -> Any:
        with contextlib.closing(bank.plain_connection()) as connection:
            receipt = run.receipt(connection)
            cursor = connection.cursor()
            cursor.execute(DEBIT)
            cursor.execute(CREDIT)
            result = receipt.save_result({"moved": 10, "to": "Müller"})
            connection.commit()
            return result

    return {"connection": on_connection, "session": on_session, "plain": on_plain}[kind]


async def deliver(handler: Any, attempt: int = 1, **fields: Any) -> HandlerEnd:
    return await run_handler(handler, run_id=7, attempt=attempt, **fields)


def settled(end: HandlerEnd) -> bool:
    return end.message.startswith("settled by its receipt: attempt 1 has done the work at ")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_that_is_delivered_again_ends_as_the_first_time(bank: Bank, kind: str) -> None:
    first = await deliver(transfer(bank, kind))
    again = await deliver(transfer(bank, kind), 2)
    assert (first.outcome, first.result, first.message) == (
        "succeeded",
        {"moved": 10, "to": "Müller"},
        "",
    )
    assert (again.outcome, again.result) == ("succeeded", first.result)
    assert settled(again)
    assert again.log == [("info", again.message)]
    assert bank.moves() == (1, 1)


async def test_a_transaction_that_rolls_back_leaves_no_receipt(bank: Bank) -> None:
    def fails(run: Run) -> None:
        with bank.engine.begin() as connection:
            run.receipt(connection)
            move(connection)
            raise RuntimeError("no more ink")

    assert (await deliver(fails)).outcome == "failed"
    assert (bank.moves(), bank.receipts()) == ((0, 0), [])
    assert (await deliver(transfer(bank, "connection"), 2)).outcome == "succeeded"
    assert bank.moves() == (1, 1)


async def test_another_run_does_its_own_work(bank: Bank) -> None:
    for run_id in (7, 8):
        await run_handler(transfer(bank, "connection"), run_id=run_id)
    assert bank.moves() == (2, 2)


async def test_a_number_given_out_twice_is_another_run(bank: Bank) -> None:
    """The database of the admins was restored from a backup."""
    handler = transfer(bank, "connection")
    await deliver(handler, scheduled_at=datetime(2026, 3, 1, tzinfo=UTC))
    await deliver(handler, scheduled_at=datetime(2026, 3, 2, tzinfo=UTC))
    assert bank.moves() == (2, 2)


async def test_another_installation_has_receipts_of_its_own(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("north", "south"):
        monkeypatch.setenv("TICKWHEEL_INSTALLATION", name)
        await deliver(transfer(bank, "connection"))
    assert bank.moves() == (2, 2)


async def test_runs_with_the_same_key_have_one_effect(bank: Bank) -> None:
    def pay(run: Run, invoice: str) -> Any:
        with bank.engine.begin() as connection:
            receipt = run.receipt(connection, key=f"invoice {invoice}")
            move(connection)
            return receipt.save_result(invoice)

    ends = [
        await run_handler(pay, run_id=run_id, parameters={"invoice": invoice})
        for run_id, invoice in ((7, "a"), (8, "A"), (9, "a"))
    ]
    assert [end.result for end in ends] == ["a", "A", "a"]
    assert [settled(end) for end in ends] == [False, False, True]
    assert bank.moves() == (2, 2)


async def test_a_test_may_leave_the_run_out(sqlite_url: str) -> None:
    """Each is another run; only the key says that they have one effect."""
    bank = Bank(sqlite_url)
    bank.open()

    def pay(run: Run) -> None:
        with bank.engine.begin() as connection:
            run.receipt(connection, key="invoice 3")
            move(connection)

    assert [settled(await run_handler(pay)) for _ in range(3)] == [False, True, True]
    assert bank.moves() == (1, 1)


async def test_a_handler_goes_on_with_its_next_effect(bank: Bank) -> None:
    def two_payments(run: Run, fail: bool = False) -> int:
        done = 0
        for number in (1, 2):
            with contextlib.suppress(AlreadyDone), bank.engine.begin() as connection:
                run.receipt(connection, key=f"{run.id} payment {number}")
                move(connection)
                done += 1
            if fail:
                raise RuntimeError("the first one only")
        return done

    assert (await deliver(two_payments, parameters={"fail": True})).outcome == "failed"
    assert (await deliver(two_payments, 2)).result == 1
    assert bank.moves() == (2, 2)


async def test_a_second_receipt_in_the_same_transaction_cannot_settle_it(bank: Bank) -> None:
    """To end as done would roll the work back and call it a success."""

    def twice(run: Run) -> None:
        with bank.engine.begin() as connection:
            run.receipt(connection)
            move(connection)
            run.receipt(connection)

    end = await deliver(twice)
    assert end.outcome == "failed"
    assert "this attempt has written this receipt before" in end.message
    assert (bank.moves(), bank.receipts()) == ((0, 0), [])


def autocommit(bank: Bank) -> Any:
    if bank.vendor == "sqlite":
        return bank.plain_connection(isolation_level=None)
    return bank.plain_connection(autocommit=True)


async def test_without_a_transaction_there_is_no_receipt(bank: Bank) -> None:
    def on_plain(run: Run) -> None:
        with contextlib.closing(autocommit(bank)) as connection:
            run.receipt(connection)

    def on_sqlalchemy(run: Run) -> None:
        with bank.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            run.receipt(connection)

    def on_an_engine(run: Run) -> None:
        engine = bank.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            run.receipt(connection)

    def on_an_engine_for_all(run: Run) -> None:
        engine = sa.create_engine(bank.url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            run.receipt(connection)

    for handler in (on_plain, on_sqlalchemy, on_an_engine, on_an_engine_for_all):
        end = await deliver(handler)
        assert end.outcome == "failed"
        assert "no transaction was begun on this connection" in end.message
    assert bank.receipts() == []


async def test_a_transaction_begun_by_hand_is_one(bank: Bank) -> None:
    def by_hand(run: Run) -> None:
        with contextlib.closing(autocommit(bank)) as connection:
            connection.cursor().execute("BEGIN")
            run.receipt(connection)
            connection.rollback()

    assert (await deliver(by_hand)).outcome == "succeeded"
    assert bank.receipts() == []


async def test_a_later_attempt_makes_earlier_ones_stale(bank: Bank) -> None:
    executor = Executor("bank", admins=["http://localhost:8500"], token="t" * 40)
    executor.receipts(bank.engine)

    @executor.handler("waits")
    async def waits(run: Run) -> None:
        """The second attempt is noted, and has not come to its transaction."""

    executor.handler("transfer")(transfer(bank, "connection"))
    assert (await run_handler(executor, "waits", run_id=7, attempt=2, job="x")).succeeded
    stale = await run_handler(executor, "transfer", run_id=7, attempt=1, job="x")
    assert stale.outcome == "failed"
    assert "attempt 1 is stale: attempt 2 has begun" in stale.message
    assert bank.moves() == (0, 0)
    assert (await run_handler(executor, "transfer", run_id=7, attempt=3, job="x")).succeeded
    assert bank.moves() == (1, 1)


@pytest.mark.parametrize("given", ["engine", "function", "plain connections"])
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_is_done_is_found_before_the_handler_is_called(
    bank: Bank, given: str, is_async: bool
) -> None:
    executor = Executor("bank", admins=["http://localhost:8500"], token="t" * 40)
    executor.receipts(
        {
            "engine": bank.engine,
            "function": lambda: bank.engine,
            "plain connections": bank.plain_connection,
        }[given]
    )
    called: list[int] = []
    plain = transfer(bank, "connection")

    async def asynchronous(run: Run) -> Any:
        called.append(run.attempt)
        return plain(run)

    def threaded(run: Run) -> Any:
        called.append(run.attempt)
        return plain(run)

    executor.handler("transfer")(asynchronous if is_async else threaded)
    for attempt in (1, 2, 3):
        end = await run_handler(executor, "transfer", run_id=7, attempt=attempt)
        assert (end.outcome, end.result["moved"]) == ("succeeded", 10)
        assert settled(end) == (attempt > 1)
    assert called == [1]
    assert bank.moves() == (1, 1)


async def test_what_was_lost_before_its_commit_is_done_by_the_next_attempt(bank: Bank) -> None:
    """The claim of an attempt that died stands in nobody's way."""
    executor = Executor("bank", admins=["http://localhost:8500"], token="t" * 40)
    executor.receipts(bank.engine)

    @executor.handler("dies")
    def dies(run: Run) -> None:
        raise SystemExit

    executor.handler("transfer")(transfer(bank, "plain"))
    for attempt in (1, 2):
        await run_handler(executor, "dies", run_id=7, attempt=attempt)
    end = await run_handler(executor, "transfer", run_id=7, attempt=3)
    assert (end.outcome, end.message) == ("succeeded", "")
    assert bank.moves() == (1, 1)


@pytest.mark.parametrize("name", ["transfer", "never"])
def test_handlers_in_processes_of_their_own(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    bank = Bank(sqlite_url)
    bank.open()
    monkeypatch.setenv("BANK", str(bank.url.database))
    executor = Executor("bank", admins=["http://localhost:8500"], token="t" * 40)
    executor.receipts(process_service.connect)
    executor.handler("transfer", isolation="process")(process_service.transfer)
    executor.handler("never", isolation="process")(process_service.never)
    first = run_handler(executor, "transfer", run_id=7).result()
    assert first.result not in (None, os.getpid())
    again = run_handler(executor, name, run_id=7, attempt=2).result()
    assert (again.outcome, again.result) == ("succeeded", first.result), again
    assert settled(again)
    assert bank.moves() == (1, 1)


async def test_old_receipts_are_purged(bank: Bank) -> None:
    for run_id in (1, 2, 3):
        await run_handler(transfer(bank, "connection"), run_id=run_id)
    old = (time.time() - 91 * 86_400) * 1000
    with bank.engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE tickwheel_receipt SET written_at = :old WHERE run_id < 3"),
            {"old": int(old)},
        )
        assert purge_receipts(connection) == 2
        assert purge_receipts(connection) == 0
    assert len(bank.receipts()) == 1
    with bank.engine.begin() as connection, pytest.raises(ValueError, match="less than 8 days"):
        purge_receipts(connection, older_than=timedelta(days=1))


async def test_a_result_of_any_size_and_alphabet_is_kept(bank: Bank) -> None:
    value = {"😀" * 5_000: "ß" * 6_000, "number": 1.5, "none": None, "list": [1, True]}

    def returns(run: Run) -> Any:
        with bank.engine.begin() as connection:
            return run.receipt(connection).save_result(value)

    assert (await deliver(returns)).result == value
    assert (await deliver(returns, 2)).result == value


async def test_a_result_that_is_no_json_rolls_the_work_back(bank: Bank) -> None:
    def returns(run: Run) -> Any:
        with bank.engine.begin() as connection:
            receipt = run.receipt(connection)
            move(connection)
            return receipt.save_result(object())

    end = await deliver(returns)
    assert "the result of the receipt cannot be written as JSON" in end.message
    assert (bank.moves(), bank.receipts()) == ((0, 0), [])


def test_the_ddl_is_what_the_function_executes(database_url: str) -> None:
    engine = sa.create_engine(database_url, poolclass=sa.NullPool)
    vendor: Any = "mysql" if engine.dialect.name == "mariadb" else engine.dialect.name
    with engine.begin() as connection:
        for statement in receipt_table_ddl(vendor).split(";\n"):
            if statement:
                connection.exec_driver_sql(statement)
        made = sa.inspect(connection).get_columns("tickwheel_receipt")
        connection.exec_driver_sql("DROP TABLE tickwheel_receipt")
        create_receipt_table(connection)
        again = sa.inspect(connection).get_columns("tickwheel_receipt")
    assert [str(column) for column in made] == [str(column) for column in again]
    engine.dispose()


@pytest.mark.parametrize("vendor", ["mysql", "postgresql", "sqlite"])
def test_the_document_shows_the_ddl(vendor: Any) -> None:
    page = Path(__file__).parents[3] / "docs" / "receipts.md"
    assert f"```sql\n{receipt_table_ddl(vendor)}```" in page.read_text()


@pytest.mark.parametrize("face", ["connection", "session"])
async def test_on_an_asynchronous_connection(postgresql_url: str, face: str) -> None:
    bank = Bank(postgresql_url)
    bank.open()
    engine = create_async_engine(postgresql_url, poolclass=sa.NullPool)

    async def pay(run: Run) -> Any:
        if face == "connection":
            async with engine.begin() as connection:
                receipt = await run.receipt_async(connection)
                await connection.run_sync(move)
                return await receipt.save_result("paid")
        async with AsyncSession(engine) as session, session.begin():
            receipt = await run.receipt_async(session)
            await session.execute(sa.text(DEBIT))
            await session.execute(sa.text(CREDIT))
            return await receipt.save_result("paid")

    executor = Executor("bank", admins=["http://localhost:8500"], token="t" * 40)
    executor.receipts(engine)
    executor.handler("pay")(pay)
    executor.handler("plain")(lambda run: None)
    first = await deliver(pay)
    again = await deliver(pay, 2)
    checked = await run_handler(executor, "pay", run_id=7, attempt=3, job="pay")
    assert [each.result for each in (first, again, checked)] == ["paid"] * 3, first
    assert settled(again)
    assert settled(checked)
    assert bank.moves() == (1, 1)
    refused = await run_handler(executor, "plain", run_id=8, attempt=2)
    assert "this handler is a plain def" in refused.message
    await engine.dispose()


async def test_connections_that_are_none(sqlite_url: str) -> None:
    engine = create_async_engine("postgresql+psycopg://nowhere/nothing")
    for wrong, message in (
        (object(), "object is no connection for a receipt"),
        (sa.create_engine(sqlite_url), "Engine is no connection for a receipt"),
        (engine.connect(), "`await run.receipt_async(connection)`"),
    ):
        end = await deliver(lambda run, wrong=wrong: run.receipt(wrong))
        assert message in end.message


@pytest.mark.parametrize("key", ["", " a", "a ", "a\n", "x" * 181])
async def test_keys_that_a_database_would_confuse(key: str) -> None:
    end = await deliver(lambda run: run.receipt(sa.create_mock_engine, key=key))
    assert "ReceiptError" in end.message


async def test_a_run_with_a_receipt_spawns_nothing(sqlite_url: str) -> None:
    bank = Bank(sqlite_url)
    bank.open()

    def receipt_first(run: Run) -> None:
        with bank.engine.begin() as connection:
            run.receipt(connection)
        run.spawn([1])

    def spawn_first(run: Run) -> None:
        run.spawn([1])
        with bank.engine.begin() as connection:
            run.receipt(connection)

    for handler in (receipt_first, spawn_first):
        end = await run_handler(handler, origin="step", may_spawn=True)
        assert "would spawn nothing; use one or the other" in end.message


async def test_a_run_that_has_to_end_begins_nothing(sqlite_url: str) -> None:
    bank = Bank(sqlite_url)
    bank.open()

    def late(run: Run) -> None:
        while not run.cancelled:
            time.sleep(0.001)
        with bank.engine.begin() as connection:
            run.receipt(connection)
            move(connection)

    assert (await run_handler(late, timeout=0.01)).outcome == "timed_out"
    assert bank.moves() == (0, 0)


async def test_the_state_of_a_settled_run_stays_as_it_is(sqlite_url: str) -> None:
    bank = Bank(sqlite_url)
    bank.open()

    def counts(run: Run) -> None:
        run.state["count"] = run.attempt
        with bank.engine.begin() as connection:
            run.receipt(connection)

    assert (await deliver(counts, state={})).state == {"count": 1}
    assert (await deliver(counts, 2, state={})).state == {}
