"""Looks for the receipt of a redelivered run before its handler is called."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

from tickwheel_executor.errors import ReceiptError

from .databases import database_of
from .receipt import AttemptEffect, claim_effect


class ReceiptCheck:
    """Claims an effect for a later attempt, or ends the attempt because the effect is done.

    Can be pickled for handlers in processes of their own if its source is a function at the top
    level of a module.
    """

    def __init__(self, source: Any) -> None:
        """`source`: an engine of SQLAlchemy, a connection of Django, or a function.

        The function returns one of these, or a new DB-API connection, which is closed.
        """
        self._source = source

    def __call__(self, effect: AttemptEffect) -> Awaitable[None] | None:
        """Claim it, in a transaction of its own; to be awaited where a loop is running.

        Raises:
            AlreadyDone: the work is committed.
            StaleAttemptError: a later attempt has begun.
        """
        if _has_loop():
            return self._claim_in_loop(effect)
        if self._claim(effect, of_thread=False) is not None:
            raise ReceiptError(
                "executor.receipts() was given an asynchronous engine, and this handler is a plain "
                "def: give a synchronous one"
            )
        return None

    async def _claim_in_loop(self, effect: AttemptEffect) -> None:
        engine = await asyncio.to_thread(self._claim, effect, of_thread=True)
        if engine is not None:
            async with engine.begin() as connection:
                await connection.run_sync(lambda each: claim_effect(database_of(each), effect))

    def _claim(self, effect: AttemptEffect, *, of_thread: bool) -> Any:
        """Claim it, or return an asynchronous engine to do that on."""
        source = self._opened()
        if hasattr(source, "sync_engine"):
            return source
        _claim(source, effect, of_thread=of_thread)
        return None

    def _opened(self) -> Any:
        source: Callable[[], Any] | Any = self._source
        is_function = callable(source) and not hasattr(source, "begin")
        return source() if is_function and not _is_of_django(source) else source


def _claim(source: Any, effect: AttemptEffect, *, of_thread: bool) -> None:
    if hasattr(source, "dialect") and hasattr(source, "begin"):  # an engine of SQLAlchemy
        with source.begin() as connection:
            claim_effect(database_of(connection), effect)
    elif _is_of_django(source):
        transaction = importlib.import_module("django.db.transaction")
        try:
            with transaction.atomic(using=source.alias):
                claim_effect(database_of(source), effect)
        finally:
            if of_thread:  # Django has a connection for each thread
                source.close()
    else:
        with closing(source):
            claim_effect(database_of(source), effect)
            source.commit()


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _is_of_django(source: Any) -> bool:
    return hasattr(source, "in_atomic_block") and hasattr(source, "alias")
