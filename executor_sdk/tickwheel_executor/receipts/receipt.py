"""Writes the receipt of an effect, or finds what an earlier attempt has written."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any, TypeVar

from tickwheel_executor.as_json import encode
from tickwheel_executor.errors import AlreadyDone, ReceiptError, StaleAttemptError
from tickwheel_shared.protocol import MAX_RESULT_BYTES, RunRequest

from .databases import VENDORS, Database

MAX_KEY_CHARS = 180
_MAX_INSTALLATION_CHARS = 64
_CLAIMED, _DONE = 0, 1
# Each one sees a row and loses it: to a purge, or to a claim that was taken over meanwhile.
_ROUNDS = 5

_Value = TypeVar("_Value")

_TAKE = (
    "UPDATE tickwheel_receipt SET attempt = ?, token = ?, done = ?, written_at = ? "
    "WHERE installation = ? AND effect = ? AND done = 0 AND attempt <= ?"
)
_SAVE_RESULT = "UPDATE tickwheel_receipt SET result = ? WHERE installation = ? AND effect = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEffect:
    """An effect, and the attempt that is about to do it."""

    installation: str
    effect: str
    run: int
    attempt: int
    token: str


def effect_of(request: RunRequest, key: str | None = None) -> AttemptEffect:
    """What a receipt of this attempt stands for.

    Args:
        key: the handler's own name of the effect; None: what this run does, whatever its attempt.

    Raises:
        ReceiptError: an invalid key, or TICKWHEEL_INSTALLATION is too long.
    """
    effect = f"run {request.run} of job {request.job_id} at {request.scheduled_at}"
    if key is not None:
        # MySQL ignores spaces at the end when it compares.
        if not key or len(key) > MAX_KEY_CHARS or key != key.strip() or not key.isprintable():
            raise ReceiptError(
                f"the key {key!r}: wanted 1 to {MAX_KEY_CHARS} printable characters without "
                "spaces around them"
            )
        effect = f"key {key}"
    installation = os.environ.get("TICKWHEEL_INSTALLATION", "").strip()
    if len(installation) > _MAX_INSTALLATION_CHARS:
        raise ReceiptError(f"TICKWHEEL_INSTALLATION: at most {_MAX_INSTALLATION_CHARS} characters")
    return AttemptEffect(
        installation=installation,
        effect=effect,
        run=request.run,
        attempt=request.attempt,
        token=request.token,
    )


class Receipt:
    """A receipt that is written, and commits with the transaction of its connection."""

    __slots__ = ("_database", "_effect")

    def __init__(self, database: Database, effect: AttemptEffect) -> None:
        self._database = database
        self._effect = effect

    def save_result(self, value: _Value) -> _Value:
        """Store the run's result with its effect, in the same transaction; returns the value.

        A later attempt that finds the receipt ends with it: `return receipt.save_result(…)`.

        Args:
            value: any JSON of at most 64 KiB.

        Raises:
            ReceiptError: it is not, or the transaction has no receipt any more.
        """
        data, problem = encode(value, what="the result of the receipt", limit=MAX_RESULT_BYTES)
        if problem:
            raise ReceiptError(problem)
        # ASCII, whatever the character sets of table and connection are.
        text = json.dumps(json.loads(bytes(data)))
        effect = self._effect
        self._database.execute(_SAVE_RESULT, text, effect.installation, effect.effect)
        # Not the count of changed rows: MySQL counts none if the same result is there.
        found = _find(self._database, effect)
        if found is None or found.token != effect.token:
            raise ReceiptError("the receipt is gone: its transaction has ended")
        return value


class AsyncReceipt:
    """A receipt on an asynchronous connection of SQLAlchemy."""

    __slots__ = ("_connection", "_receipt")

    def __init__(self, connection: Any, receipt: Receipt) -> None:
        self._connection = connection
        self._receipt = receipt

    async def save_result(self, value: _Value) -> _Value:
        """As `Receipt.save_result` does."""
        await self._connection.run_sync(lambda _: self._receipt.save_result(value))
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    attempt: int
    token: str
    done: bool
    written_at: int
    result: str | None


def write_receipt(database: Database, effect: AttemptEffect) -> Receipt:
    """Write it in the transaction of this connection, which does the work.

    Raises:
        AlreadyDone: the work is committed.
        StaleAttemptError: a later attempt has begun.
        ReceiptError: there is no transaction, or this attempt has written it before.
    """
    if database.commits_each_statement():
        raise ReceiptError(
            "no transaction was begun on this connection, and it commits each statement by itself: "
            "a receipt has to commit together with the work"
        )
    _take(database, effect, _DONE)
    return Receipt(database, effect)


def claim_effect(database: Database, effect: AttemptEffect) -> None:
    """Say in a transaction of its own that this attempt begins: earlier ones are stale from then.

    Raises:
        AlreadyDone: the work is committed.
        StaleAttemptError: a later attempt has begun.
    """
    _take(database, effect, _CLAIMED)


def _take(database: Database, effect: AttemptEffect, done: int) -> None:
    now = time.time_ns() // 1_000_000
    key = (effect.installation, effect.effect)
    for _ in range(_ROUNDS):
        inserted = database.execute(
            VENDORS[database.vendor].insert,
            *(*key, effect.run, effect.attempt, effect.token, done, now),
        )
        if inserted == 1:
            return
        row = _find(database, effect)
        if row is None:
            continue
        _judge(row, effect, done)
        attempt = (effect.attempt, effect.token, done, now)
        if database.execute(_TAKE, *attempt, *key, effect.attempt) == 1:
            return
        if done == _CLAIMED and (row.attempt, row.token) == (effect.attempt, effect.token):
            return  # claimed in this very millisecond, and MySQL counts what it has changed
    raise ReceiptError(f"the receipt of {effect.effect!r} came and went; another try may succeed")


def _find(database: Database, effect: AttemptEffect) -> _Row | None:
    found = database.row(VENDORS[database.vendor].find, effect.installation, effect.effect)
    if found is None:
        return None
    attempt, token, done, written_at, result = found
    return _Row(
        attempt=attempt, token=token, done=done == _DONE, written_at=written_at, result=result
    )


def _judge(row: _Row, effect: AttemptEffect, done: int) -> None:
    if not row.done:
        if row.attempt > effect.attempt:
            raise StaleAttemptError(effect.attempt, row.attempt)
        return
    if done == _DONE and (row.attempt, row.token) == (effect.attempt, effect.token):
        # It may be of this very transaction: to end as done would roll the work back.
        raise ReceiptError(
            "this attempt has written this receipt before; give each transaction of a handler a "
            "key of its own"
        )
    result = None if row.result is None else json.loads(row.result)
    raise AlreadyDone(attempt=row.attempt, written_at_ms=row.written_at, result=result)
