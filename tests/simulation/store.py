"""A process's way to the database, with everything that can happen on that way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar

import sqlalchemy as sa

from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tests.simulation.scheduler import Process
from tickwheel_admin.store.database.database import (
    FIRST_PAUSE_SECONDS,
    MAX_PAUSE_SECONDS,
    REPEATS,
    DatabaseUnavailable,
    Repeat,
    StatementRefused,
)

P = ParamSpec("P")
T = TypeVar("T")


# In an operator's call: what was asked for has been done, and the answer was lost.
done_unknown: ContextVar[bool] = ContextVar("done_unknown", default=False)


class Fault(Enum):
    """What happens to one try of a transaction."""

    NONE = auto()
    CRASH_BEFORE = auto()  # the admin dies before it
    CRASH_AFTER = auto()  # committed, and the admin dies before it knows
    ROLLED_BACK = auto()  # a transient error: nothing is written
    UNKNOWN_COMMIT = auto()  # committed, and the answer is lost
    FREEZE_AFTER = auto()  # committed, and the admin freezes before it knows


@dataclass(slots=True)
class FaultShares:
    """How often each fault happens to a try, at the moment; nothing by default."""

    crash: float = 0.0
    rolled_back: float = 0.0
    unknown_commit: float = 0.0
    freeze_after_claim: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)  # what happened so far, by name


class Host(Protocol):
    """The machine whose process uses the store."""

    def kill(self) -> None: ...

    def freeze_for(self, longest: float) -> None: ...


class _Transient(Exception):
    """Stands for a driver's error after which the whole transaction is repeated."""


class SimStore:
    """The Store protocol over a SimDatabase, for one process."""

    def __init__(
        self,
        database: SimDatabase,
        process: Process | None,
        random: Random,
        history: History,
        shares: FaultShares,
        *,
        host: Host | None = None,
    ) -> None:
        self._database = database
        self._who = "world" if process is None else process.name
        self._random = random
        self._history = history
        self._shares = shares
        self._host = host

    async def run(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._repeated(work, args, kwargs, writes=True)

    async def read(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._repeated(work, args, kwargs, writes=False)

    async def _repeated(self, work: Callable[..., T], args: Any, kwargs: Any, *, writes: bool) -> T:
        """As `store.database.Database` does it."""
        name = getattr(work, "__name__", "transaction")
        pause = FIRST_PAUSE_SECONDS
        for attempt in range(1, REPEATS + 1):
            try:
                return await self._try(work, args, kwargs, name=name, writes=writes)
            except (Repeat, _Transient) as error:
                failure: Exception = error
            except sa.exc.IntegrityError as error:
                if attempt > 1:
                    raise
                failure = error
            except sa.exc.DBAPIError as error:
                raise StatementRefused(f"{name}: {error.orig}") from error
            if attempt < REPEATS:
                await asyncio.sleep(pause * (0.5 + self._random.random()))
                pause = min(pause * 3, MAX_PAUSE_SECONDS)
        raise DatabaseUnavailable(f"{name}: {failure}") from failure

    async def _try(
        self, work: Callable[..., T], args: Any, kwargs: Any, *, name: str, writes: bool
    ) -> T:
        await self._travel()
        fault = self._draw(name, writes=writes)
        if fault is not Fault.NONE:
            self._shares.seen[f"transaction: {fault.name.lower()}"] += 1
            self._history.note(self._who, f"{name}: {fault.name.lower()}")
        if fault is Fault.CRASH_BEFORE:
            await self._crash()
        if fault is Fault.ROLLED_BACK:
            self._database.transact(work, *args, commit=False, **kwargs)
            raise _Transient("rolled back")
        audited = self._database.audited() if fault is Fault.UNKNOWN_COMMIT else 0
        answer = self._database.transact(work, *args, commit=True, **kwargs)
        if fault is Fault.UNKNOWN_COMMIT and self._database.audited() > audited:
            done_unknown.set(True)
        if writes:
            self._database.check_counts(f"{self._who} ({name})")
        if fault is Fault.CRASH_AFTER:
            await self._crash()
        if fault is Fault.FREEZE_AFTER and self._host is not None:
            # What it claimed is still to be sent when it wakes up; by then it went elsewhere.
            self._host.freeze_for(self._random.choice((2.0, 12.0, 40.0)))
        if fault is Fault.UNKNOWN_COMMIT:
            raise _Transient("the answer was lost")
        await self._travel()  # an outage that begins now makes it an unknown commit, too
        return answer

    async def _travel(self) -> None:
        random = self._random.random()
        slow = self._database.is_slow and random < 0.3
        await asyncio.sleep(self._random.uniform(0.05, 1.5) if slow else 0.0002 + 0.003 * random)
        if self._history.closed:
            raise asyncio.CancelledError
        if self._database.is_down:
            await asyncio.sleep(self._random.uniform(0.0, 1.0))
            raise _Transient("connection refused")

    def _draw(self, name: str, *, writes: bool) -> Fault:
        shares = self._shares
        is_claim = name == "claim_queued_runs"
        number = self._random.random()
        for fault, share in (
            (Fault.CRASH_BEFORE, shares.crash / 2),
            (Fault.CRASH_AFTER, shares.crash / 2 if writes else 0.0),
            (Fault.ROLLED_BACK, shares.rolled_back),
            (Fault.UNKNOWN_COMMIT, shares.unknown_commit if writes else 0.0),
            (Fault.FREEZE_AFTER, shares.freeze_after_claim if is_claim else 0.0),
        ):
            if number < share:
                return fault
            number -= share
        return Fault.NONE

    async def _crash(self) -> NoReturn:
        assert self._host is not None
        self._host.kill()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("the dead do not walk")
