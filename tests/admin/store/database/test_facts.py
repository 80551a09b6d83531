"""What transactions did is counted once each, when it is committed, and never otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa

from tickwheel_admin.store.database.database import Database, DatabaseUnavailable, Repeat
from tickwheel_admin.store.database.facts import RepeatCause, TransactionFacts, facts_of


@dataclass
class Notes:
    """Keeps what it is told."""

    log_bytes: list[int] = field(default_factory=list)
    measured_ones: list[tuple[bool, list[RepeatCause], bool]] = field(default_factory=list)

    def committed(self, facts: TransactionFacts) -> None:
        self.log_bytes.append(facts.log_bytes)

    def measured(
        self, *, writes: bool, seconds: float, repeats: Sequence[RepeatCause], failed: bool
    ) -> None:
        assert seconds >= 0
        self.measured_ones.append((writes, list(repeats), failed))


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def counted(tmp_path: Path, notes: Notes) -> Database:
    return Database(f"sqlite:///{tmp_path / 'x.db'}", threads=1, meter=notes)


def test_a_repeated_transaction_is_counted_once_with_its_repeats(
    counted: Database, notes: Notes
) -> None:
    tries: list[int] = []

    def write(conn: sa.Connection) -> None:
        tries.append(1)
        facts_of(conn).log_bytes += 100
        if len(tries) < 3:
            raise Repeat("somebody was faster")

    counted.run_sync(write)

    assert notes.log_bytes == [100]
    assert notes.measured_ones == [(True, [RepeatCause.CONFLICT] * 2, False)]


def test_what_is_rolled_back_is_not_counted(counted: Database, notes: Notes) -> None:
    def write(conn: sa.Connection) -> None:
        facts_of(conn).log_bytes += 100
        raise Repeat("always")

    with pytest.raises(DatabaseUnavailable):
        counted.run_sync(write)

    counted.run_sync(lambda conn: None)  # on the same connection

    assert notes.log_bytes == [0]
    assert [failed for _, _, failed in notes.measured_ones] == [True, False]


def test_reading_is_measured_apart(counted: Database, notes: Notes) -> None:
    counted.read_sync(lambda conn: facts_of(conn).batches.clear())

    assert notes.log_bytes == []
    assert notes.measured_ones == [(False, [], False)]
