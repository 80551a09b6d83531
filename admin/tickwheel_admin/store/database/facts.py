"""What a transaction did, collected while it runs and counted once it is committed.

A transaction may be rolled back and repeated, so its functions must not count anything themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, cast

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import Move, Run

_KEY = "tickwheel_facts"


class BatchStep(StrEnum):
    """Transactions that do the work of many runs at once."""

    PLANNING = "planning"  # triggers
    CLAIMING = "claiming"  # runs
    RECORDING = "recording"  # messages of nodes


class RepeatCause(StrEnum):
    """Why a transaction is repeated."""

    CONFLICT = "conflict"  # a row was not as it had been read
    UNIQUE_KEY = "unique_key"  # another transaction has written a row of this key
    DATABASE = "database"  # a deadlock, a limit, a lost connection


@dataclass(slots=True)
class TransactionFacts:
    """What the functions of one transaction tell of it."""

    moves: list[Sequence[Move]] = field(default_factory=list)
    planned: list[Sequence[Run]] = field(default_factory=list)  # runs of fires
    batches: list[tuple[BatchStep, int]] = field(default_factory=list)
    log_bytes: int = 0  # of stored log lines


class TransactionMeter(Protocol):
    """Counts transactions. Called from the threads of the database, so it must be quick."""

    def committed(self, facts: TransactionFacts) -> None:
        """A transaction that writes is committed."""
        ...

    def measured(
        self, *, writes: bool, seconds: float, repeats: Sequence[RepeatCause], failed: bool
    ) -> None:
        """A transaction is over, with its repeats."""
        ...


def collect_facts(conn: sa.Connection) -> TransactionFacts:
    """Begin to collect what the transaction of this connection does."""
    facts = TransactionFacts()
    conn.info[_KEY] = facts
    return facts


def forget_facts(conn: sa.Connection) -> None:
    """The transaction does nothing more: what uses the connection next is another one."""
    conn.info.pop(_KEY, None)


def facts_of(conn: sa.Connection) -> TransactionFacts:
    """Where the functions of a transaction add what they do; nobody reads it if nobody counts."""
    facts = cast("TransactionFacts | None", conn.info.get(_KEY))
    return TransactionFacts() if facts is None else facts
