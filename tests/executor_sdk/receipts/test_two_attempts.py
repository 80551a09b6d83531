"""Two attempts of one run at the same time, in every order of their statements."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.support.nightly import IS_NIGHT
from tickwheel_executor import AlreadyDone, StaleAttemptError
from tickwheel_executor.receipts import receipt_table_ddl
from tickwheel_executor.receipts.databases import database_of
from tickwheel_executor.receipts.receipt import AttemptEffect, claim_effect, write_receipt

from .bank import CREDIT, DEBIT, Bank

PATIENCE_SECONDS = 0.02  # until a statement that does not return counts as waiting for a lock
HUNG_SECONDS = 30.0

# At READ COMMITTED each statement sees what is committed; at REPEATABLE READ all of them what was
# at the first one. SQLite: a transaction begins with reading, or with the lock of the one writer.
LEVELS = {
    "mysql": ("REPEATABLE READ", "READ COMMITTED"),
    "postgresql": ("READ COMMITTED", "REPEATABLE READ"),
    "sqlite": ("BEGIN", "BEGIN IMMEDIATE"),
}

Step = Callable[[], None]


def effect(attempt: int) -> AttemptEffect:
    return AttemptEffect(
        installation="", effect="run 7", run=7, attempt=attempt, token=f"token {attempt}"
    )


class Attempt:
    """One attempt, whose statements are executed when it is told to, in a thread of its own."""

    def __init__(
        self, bank: Bank, number: int, *, level: str, claims: bool, commits: bool, receipts: bool
    ) -> None:
        self._bank = bank
        self._number = number
        self._level = level
        self._receipts = receipts
        self.outcome = ""
        self.history: list[str] = []
        steps: list[Step] = [self.claim] if claims else []
        steps += [self.begin, self.receipt, self.work, self.commit if commits else self.roll_back]
        self.steps_left = len(steps)
        self._turns: queue.SimpleQueue[Step] = queue.SimpleQueue()
        self._steps = iter(steps)
        self._idle = threading.Event()
        self._connection: Any = None
        self.claimed_at: float | None = None
        self.receipt_at: float | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._idle.wait(HUNG_SECONDS)  # it is connected

    # --- what it does -----------------------------------------------------------------------------

    def claim(self) -> None:
        claim_effect(database_of(self._connection), effect(self._number))
        self._connection.commit()
        self.claimed_at = time.monotonic()

    def begin(self) -> None:
        cursor = self._connection.cursor()
        if self._bank.vendor == "sqlite":
            cursor.execute(self._level)
        cursor.execute("SELECT balance FROM account")  # takes the snapshot
        cursor.fetchall()

    def receipt(self) -> None:
        self.receipt_at = time.monotonic()
        if self._receipts:
            write_receipt(database_of(self._connection), effect(self._number))

    def work(self) -> None:
        cursor = self._connection.cursor()
        cursor.execute(DEBIT)
        cursor.execute(CREDIT)

    def commit(self) -> None:
        self._connection.commit()
        self.outcome = "committed"

    def roll_back(self) -> None:
        """As the database does when the process dies."""
        self._connection.rollback()
        self.outcome = "rolled back"

    def _connect(self) -> Any:
        if self._bank.vendor == "sqlite":
            connection = self._bank.plain_connection()
            connection.execute("PRAGMA busy_timeout=0")  # the other one is not going on meanwhile
            connection.execute("PRAGMA synchronous=OFF")
            return connection
        connection = self._bank.plain_connection()
        words = (
            "SESSION CHARACTERISTICS AS TRANSACTION"
            if self._bank.vendor == "postgresql"
            else ("SESSION TRANSACTION")
        )
        connection.cursor().execute(f"SET {words} ISOLATION LEVEL {self._level}")
        connection.commit()
        return connection

    # --- when it does it --------------------------------------------------------------------------

    def move(self) -> None:
        """Let it make its next step; returns when it is done, or waits for a lock."""
        if self.steps_left and self.may_move:
            self.steps_left -= 1
            self._idle.clear()
            self._turns.put(next(self._steps))
            self._idle.wait(PATIENCE_SECONDS)

    @property
    def may_move(self) -> bool:
        return self._idle.is_set()

    def wait(self, seconds: float) -> None:
        self._idle.wait(seconds)

    def end(self) -> None:
        self._turns.put(self._leave)
        self._thread.join(HUNG_SECONDS)
        assert not self._thread.is_alive()

    def _leave(self) -> None:
        raise SystemExit

    def _serve(self) -> None:
        self._connection = self._connect()
        self._idle.set()
        while True:
            step = self._turns.get()
            if step == self._leave:
                if not self.outcome:
                    self._connection.close()
                return
            self.history.append(step.__name__)
            try:
                step()
            except Exception as error:  # noqa: BLE001 (of three drivers)
                self.outcome = {AlreadyDone: "done", StaleAttemptError: "stale"}.get(
                    type(error), f"failed: {error}"
                )
            if self.outcome:
                self.steps_left = 0
                self._connection.close()  # and with it, the transaction
            self._idle.set()


def orders(first: int, second: int) -> Iterator[tuple[int, ...]]:
    """Every order of so many steps of the one and of the other."""
    for places in itertools.combinations(range(first + second), second):
        yield tuple(1 if place in places else 0 for place in range(first + second))


def play(attempts: Sequence[Attempt], order: Sequence[int]) -> list[str]:
    """Let them move in this order, as far as locks allow; returns who did what."""
    told: list[str] = []
    turns = list(order)
    while any(each.steps_left or not each.may_move for each in attempts):
        number = turns.pop(0) if turns else len(told) % len(attempts)
        attempt = attempts[number]
        before = len(attempt.history)
        attempt.move()
        told += [f"{number + 1} {step}" for step in attempt.history[before:]] or ["-"]
        if not turns and not attempt.may_move:
            attempt.wait(PATIENCE_SECONDS)
        assert len(told) < 3_000, "they wait for each other"
    for each in attempts:
        each.end()
    return told


def two(
    bank: Bank, order: Sequence[int], *, receipts: bool = True, **how: Any
) -> tuple[Attempt, Attempt, str]:
    """Play two attempts; returns both and the story."""
    commits = how.pop("first_commits", True)
    claims = how.pop("claims", True)
    attempts = (
        Attempt(bank, 1, claims=False, commits=commits, receipts=receipts, **how),
        Attempt(bank, 2, claims=claims, commits=True, receipts=receipts, **how),
    )
    told = play(attempts, order)
    return *attempts, ", ".join(each for each in told if each != "-")


def reset(bank: Bank) -> None:
    with bank.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM tickwheel_receipt")
        connection.exec_driver_sql("UPDATE account SET balance = 1000 WHERE id = 1")
        connection.exec_driver_sql("UPDATE account SET balance = 0 WHERE id = 2")


def levels(bank: Bank) -> Sequence[str]:
    return LEVELS[bank.vendor] if IS_NIGHT else LEVELS[bank.vendor][:1]


def chosen(all_orders: Iterator[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """By day every fifth: neighbours differ in one step."""
    return all_orders if IS_NIGHT else itertools.islice(all_orders, 0, None, 5)


@pytest.mark.slow
@pytest.mark.parametrize("claims", [False, True], ids=["found late", "found before"])
def test_at_most_one_of_two_attempts_commits_and_the_third_completes(
    bank: Bank, claims: bool
) -> None:
    seen: Counter[str] = Counter()
    for level, first_commits in itertools.product(levels(bank), (True, False)):
        for order in chosen(orders(4, 5 if claims else 4)):
            reset(bank)
            older, newer, story = two(
                bank, order, level=level, claims=claims, first_commits=first_commits
            )
            first, second = older.outcome, newer.outcome
            about = f"{level}, {story}: {first}, {second}"
            committed = (first, second).count("committed")
            assert bank.moves() == (committed, committed), about
            assert committed <= 1, about
            if "done" in (first, second):
                assert committed == 1, about
            if newer.claimed_at and older.receipt_at and newer.claimed_at < older.receipt_at:
                assert first != "committed", about  # it came too late
            seen.update((f"1 {first[:9]}", f"2 {second[:9]}"))
            with bank.engine.begin() as connection, contextlib.suppress(AlreadyDone):
                write_receipt(database_of(connection), effect(3))
                connection.exec_driver_sql(DEBIT)
                connection.exec_driver_sql(CREDIT)
            assert bank.moves() == (1, 1), about
    # The plays were about something: each of the two has won, and been refused. On SQLite nobody
    # waits: the database is locked, and the attempt fails.
    wanted = {"1 committed", "2 committed"}
    if bank.vendor != "sqlite":
        wanted |= {"2 done", "1 stale" if claims else "1 done"}
    assert wanted <= set(seen), seen


def test_without_receipts_two_attempts_do_it_twice(bank: Bank) -> None:
    order = (0,) * 4 + (1,) * 4
    older, newer, story = two(
        bank, order, level=LEVELS[bank.vendor][0], claims=False, receipts=False
    )
    assert (older.outcome, newer.outcome) == ("committed", "committed"), story
    assert bank.moves() == (2, 2)


def test_the_key_of_the_table_is_what_holds(bank: Bank) -> None:
    """Without it, the same two attempts do it twice: the plays above would notice."""
    vendor: Any = bank.vendor
    with bank.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE tickwheel_receipt")
        table = receipt_table_ddl(vendor).split(";\n")[0]
        keyless = table.replace("    result", "    result_").replace(
            "PRIMARY KEY (installation, effect)", "result TEXT"
        )
        assert keyless.count("KEY") == 0
        connection.exec_driver_sql(keyless)
    order = (0,) * 4 + (1,) * 4
    older, newer, story = two(bank, order, level=LEVELS[bank.vendor][0], claims=False)
    assert (older.outcome, newer.outcome) == ("committed", "committed"), story
    assert bank.moves() == (2, 2)
