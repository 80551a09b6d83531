"""Handlers of all characters, and the journal that every start and end of one is written to."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from tests.simulation.history import History
from tests.simulation.scheduler import Process
from tickwheel_executor.errors import Fail, Retry, Skip, SpawnError, StateUnavailableError
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.run.context import Run


class HandlerFailure(Exception):
    """What a failing handler raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A handler began."""

    run: int
    attempt: int
    process: str
    seq: int
    vt: float  # virtual seconds
    latest_at: int  # the latest that the database's clock ever was by then, epoch ms


class Order(Protocol):
    """A run, as far as an executor of XXL-JOB's protocol knows it."""

    @property
    def id(self) -> int: ...

    @property
    def attempt(self) -> int: ...

    @property
    def job(self) -> str: ...


class Journal:
    """What handlers did: kept outside of every process, so no crash takes it away."""

    def __init__(self, history: History, latest: Callable[[], int]) -> None:
        self._history = history
        self._latest = latest
        self.starts: list[Start] = []
        self.ends: dict[tuple[int, int], str] = {}  # returned, raised, cancelled, …
        self.ended_at: dict[tuple[int, int], float] = {}  # virtual seconds
        self.asked: dict[tuple[int, int], float | None] = {}  # Retry: after how many seconds
        self.given: dict[
            tuple[int, int], tuple[Any, Any]
        ] = {}  # state and checkpoint, at the start
        self.left: dict[tuple[int, int], Any] = {}  # the state as the handler leaves it
        self.saved: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)  # checkpoints
        self.spawned: dict[tuple[int, int], list[Any]] = {}  # items; also of what failed then
        self.items: dict[tuple[int, int], Any] = {}  # the spawned item that an attempt was given
        self._running: defaultdict[str, int] = defaultdict(int)

    def started(self, process: Process, run: Run, slots: Callable[[], int]) -> None:
        if self._history.closed:
            return
        self.starts.append(
            Start(
                run=run.id,
                attempt=run.attempt,
                process=process.name,
                seq=self._history.next_seq(),
                vt=self._history.now,
                latest_at=self._latest(),
            )
        )
        self._running[process.name] += 1
        if self._running[process.name] > slots():
            self._history.violation(f"G12: {process.name} runs more handlers than it has slots")
        self._history.note(process.name, f"start {run.id}/{run.attempt} {run.job}")

    def hands_on(self, run: Run) -> None:
        """Note what it begins from, and count in the state, where its job keeps one."""
        if self._history.closed:
            return
        key = (run.id, run.attempt)
        state: dict[str, Any] | None = None
        with suppress(StateUnavailableError):
            state = dict(run.state)
            run.state = self.left[key] = {"n": state.get("n", 0) + 1, "by": list(key)}
        self.given[key] = (state, run.checkpoint)
        if run.item is not None:
            self.items[key] = run.item

    def saves(self, run: Run) -> None:
        """Save the next checkpoint, which tells whose it is and which one."""
        saved = self.saved[run.id, run.attempt]
        saved.append([run.id, run.attempt, len(saved) + 1])
        run.save_checkpoint(saved[-1])

    def spreads(self, run: Run, count: int) -> None:
        """Spawn so many items, in two calls; each tells whose it is and which one."""
        items = [{"by": [run.id, run.attempt], "n": number} for number in range(count)]
        try:
            run.spawn(items[: count // 2])
            run.spawn(items[count // 2 :])
        except SpawnError:  # an item of a for_each
            return
        self.spawned[run.id, run.attempt] = items

    def called(self, process: Process, order: Order) -> None:
        """An executor of XXL-JOB's protocol calls a handler: whatever it has slots for."""
        if self._history.closed:
            return
        self.starts.append(
            Start(
                run=order.id,
                attempt=order.attempt,
                process=process.name,
                seq=self._history.next_seq(),
                vt=self._history.now,
                latest_at=self._latest(),
            )
        )
        self._history.note(process.name, f"start {order.id}/{order.attempt} {order.job}")

    def left_off(self, process: Process, order: Order, how: str) -> None:
        """Such a handler ended; of one that was started twice, the first end counts."""
        if self._history.closed:
            return
        key = (order.id, order.attempt)
        self.ends.setdefault(key, how)
        self.ended_at.setdefault(key, self._history.now)
        self._history.note(process.name, f"end {key[0]}/{key[1]} {how}")

    def ended(self, process: Process, run: Run, how: str) -> None:
        if self._history.closed:
            return
        self._running[process.name] -= 1
        key = (run.id, run.attempt)
        if key in self.ends:
            self._history.violation(f"G2: attempt {key} ended twice")
        self.ends[key] = how
        self.ended_at[key] = self._history.now
        self._history.note(process.name, f"end {run.id}/{run.attempt} {how}")


OUTAGES = ((1, 5), (9, 11))  # of what some handlers need, in virtual seconds
OUTAGES_EVERY = 24
POISON = "poison"  # key of a result that the database refuses to store


def returned_by(run: int, attempt: int) -> dict[str, int]:
    """What a handler that succeeds returns, so that results cannot be mixed up unseen."""
    return {"run": run, "attempt": attempt}


def make_handlers(
    journal: Journal, process: Process, *, seed: int, slots: Callable[[], int]
) -> Handlers:
    """All handlers, for one process."""
    handlers = Handlers()
    for name, behave in _BEHAVIOURS.items():
        handlers.add(name, _journaled(name, behave, journal, process, seed=seed, slots=slots))
    return handlers


_Behave = Callable[[Run, Random], Awaitable[None]]


def _journaled(
    name: str,
    behave: _Behave,
    journal: Journal,
    process: Process,
    *,
    seed: int,
    slots: Callable[[], int],
) -> Callable[[Run], Awaitable[dict[str, int]]]:
    async def handler(run: Run) -> dict[str, int]:
        journal.started(process, run, slots)
        journal.hands_on(run)
        try:
            if name in _SAVING:
                journal.saves(run)
            if name in _SPREADING and run.item is None:
                journal.spreads(run, Random(f"{seed}/{run.id}").choice((0, 1, 3, 8)))
            # Its own source: the same attempt behaves the same whatever else happens.
            await behave(run, Random(f"{seed}/{run.id}/{run.attempt}"))
        except asyncio.CancelledError:
            journal.ended(process, run, "cancelled")
            raise
        except HandlerFailure:
            if name in _SAVING:
                journal.saves(run)
            journal.ended(process, run, "raised")
            raise
        except (Retry, Fail, Skip) as asked:
            if isinstance(asked, Retry):
                key = (run.id, run.attempt)
                journal.asked[key] = None if asked.after_ms is None else asked.after_ms / 1000
            journal.ended(process, run, type(asked).__name__.lower())
            raise
        journal.ended(process, run, "returned")
        is_poison = name == "poisonous" and Random(f"{seed}/{run.id}/{run.attempt}").random() < 0.4
        return returned_by(run.id, run.attempt) | ({POISON: 1} if is_poison else {})

    return handler


async def _quick(run: Run, random: Random) -> None:
    if random.random() < 0.5:
        await asyncio.sleep(random.uniform(0, 0.1))


async def _flaky(run: Run, random: Random) -> None:
    await asyncio.sleep(random.uniform(0, 0.3))
    if random.random() < 0.5:
        raise HandlerFailure("it happens")


async def _failing(run: Run, random: Random) -> None:
    await asyncio.sleep(random.uniform(0, 0.1))
    raise HandlerFailure("always")


async def _moody(run: Run, random: Random) -> None:
    await asyncio.sleep(random.uniform(0, 0.3))
    mood = random.random()
    if mood < 0.2:
        raise Retry("not yet", after=random.choice((0, 0.5, 4)))
    if mood < 0.35:
        raise Retry("not now")
    if mood < 0.5:
        raise Fail("never")
    if mood < 0.7:
        raise Skip("nothing to do")


async def _poisonous(run: Run, random: Random) -> None:
    await asyncio.sleep(random.uniform(0, 0.1))


async def _slow(run: Run, random: Random) -> None:
    seconds = random.uniform(0.5, 5)
    for step in range(3):
        run.log.info("step %d", step)
        run.progress(step / 3)
        await asyncio.sleep(seconds / 3)


async def _long(run: Run, random: Random) -> None:
    await asyncio.sleep(random.uniform(5, 25))


async def _hanging(run: Run, random: Random) -> None:
    await asyncio.sleep(1_000_000)


async def _stubborn(run: Run, random: Random) -> None:
    try:
        await asyncio.sleep(random.uniform(0.5, 8))
    except asyncio.CancelledError:
        await asyncio.sleep(random.uniform(0, 15))  # a second cancel, 10 s later, ends it


async def _spreading(run: Run, random: Random) -> None:
    """Fails at times, though it has spawned items; and so do they."""
    await asyncio.sleep(random.uniform(0, 0.3))
    if random.random() < 0.25:
        raise HandlerFailure("it happens")


async def _chatty(run: Run, random: Random) -> None:
    for number in range(random.randrange(1, 12)):
        run.log.info("line %d", number)
        if random.random() < 0.3:
            await asyncio.sleep(random.uniform(0, 0.4))


async def _breaking(run: Run, random: Random) -> None:
    """Fails with one word while what it needs is out of order, and seldom otherwise."""
    await asyncio.sleep(random.uniform(0, 0.1))
    at = asyncio.get_running_loop().time() % OUTAGES_EVERY
    is_out = any(begin <= at < end for begin, end in OUTAGES)
    if is_out or random.random() < 0.05:
        raise HandlerFailure("refused")


_SAVING = ("flaky", "slow", "long")  # those that save checkpoints
_SPREADING = ("spreading",)  # those that spawn items
_BEHAVIOURS: dict[str, _Behave] = {
    "quick": _quick,
    "flaky": _flaky,
    "failing": _failing,
    "moody": _moody,
    "poisonous": _poisonous,
    "slow": _slow,
    "long": _long,
    "hanging": _hanging,
    "stubborn": _stubborn,
    "chatty": _chatty,
    "spreading": _spreading,
    "breaking": _breaking,
}


async def behave(name: str, run: Any, random: Random) -> None:
    """Do what the handler of this name does, without what only the SDK's runs have."""
    await _BEHAVIOURS[name](run, random)
