"""A baton for threads that use one database: whoever has it executes one statement.

A *play* lets each actor run real code on its own thread and connection. Before every statement and
every commit the actor stops; the director, who draws from a seeded random source, hands the baton
to one of them. An actor that waits inside the server for a row lock keeps its statement and the
baton goes on; the server itself is asked who waits, so that a slow machine changes nothing. The
same seed on the same rows gives the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Any, Protocol

from tests.interleavings.orders import an_order

PATIENCE_SECONDS = 0.002  # until the server is asked whether a statement waits for a lock
HUNG_SECONDS = 20.0  # every lock wait and statement ends long before, by its own limit
MAX_TURNS = 3_000

_local = threading.local()


class Fault(Enum):
    """What happens to an actor's next step."""

    NONE = auto()
    ROLLED_BACK = auto()  # a transient error instead of the statement or the commit
    ANSWER_LOST = auto()  # committed, and an error says otherwise


class LockWatch(Protocol):
    """What the director asks the database servers."""

    def waiting(self, connections: Sequence[Connection]) -> set[Connection]:
        """Those whose statement waits for a lock at this moment."""
        ...

    def committing(self, connection: Connection) -> str:
        """A transaction of this connection is about to commit; what the servers do then, if any."""
        ...

    def committed(self, connection: Connection) -> None:
        """It has: see to it that others can see what it wrote, unless they shall not yet."""
        ...


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection as its server numbers it."""

    server: int
    number: int


class State(Enum):
    """Where an actor stands."""

    AT_GATE = auto()  # wants the baton for its next step
    MOVING = auto()  # has it, or waits in the server for a lock
    DONE = auto()


@dataclass(slots=True)
class Step:
    """One line of a play's history."""

    actor: str
    what: str
    ends_transaction: bool = False
    outcome: str = ""
    waited: bool = False

    def __str__(self) -> str:
        waited = "waited for a lock; " if self.waited else ""
        return f"{self.actor:<22} {self.what}   -> {waited}{self.outcome or 'done'}"


class PlayFailed(AssertionError):
    """A play did not come to its end."""


class Actor:
    """One thread of a play."""

    def __init__(self, play: Play, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self.state = State.MOVING
        self.result: Any = None
        self.error: BaseException | None = None
        self.connection: Connection | None = None
        self.wanted = ""  # its next step
        self.ends_transaction = False
        self.step: Step | None = None  # its latest
        self.repeats = 0  # of whole transactions
        self.fault = Fault.NONE
        self.turn = threading.Semaphore(0)
        self._play = play
        self._work = work
        self.thread = threading.Thread(target=self._perform, name=name, daemon=True)

    def stop(self, what: str, connection: Connection | None, *, ends: bool = False) -> Fault:
        """Wait for the baton; called by the actor's own thread. Returns what befalls the step."""
        self.wanted, self.ends_transaction = what, ends
        if connection is not None:
            self.connection = connection
        if self._play.is_over:
            return Fault.NONE
        self._play.arrived(self, State.AT_GATE)
        self.turn.acquire()
        return self.fault

    def told(self, outcome: str) -> None:
        """Note how the latest step went."""
        if self.step is not None:
            self.step.outcome = outcome

    def _perform(self) -> None:
        _local.actor = self
        try:
            self.stop("begins", None)
            self.result = self._work()
        except BaseException as error:  # noqa: BLE001 - judged by the director's thread
            self.error = error
        finally:
            _local.actor = None
            self._play.arrived(self, State.DONE)


def current_actor() -> Actor | None:
    """The actor whose thread this is."""
    return getattr(_local, "actor", None)


@dataclass(slots=True, kw_only=True)
class Figures:
    """What happened in plays, so that a test can tell whether they met at all."""

    plays: int = 0
    turns: int = 0
    lock_waits: int = 0
    repeats: int = 0
    faults: int = 0

    def add(self, other: Figures) -> None:
        self.plays += other.plays
        self.turns += other.turns
        self.lock_waits += other.lock_waits
        self.repeats += other.repeats
        self.faults += other.faults


@dataclass(slots=True, kw_only=True)
class FaultShares:
    """How often a step fails."""

    rolled_back: float = 0.0
    answer_lost: float = 0.0


class Play:
    """Directs the actors of one seed."""

    def __init__(self, random: Random, watch: LockWatch, faults: FaultShares) -> None:
        self.history: list[Step] = []
        self.figures = Figures(plays=1)
        self.actors: list[Actor] = []
        self.is_over = False  # nobody stops any more; before the end only after a failure
        self._random = random
        self._watch = watch
        self._faults = faults
        self.order = an_order(random)
        self._arrivals = threading.Condition()
        self._in_lock: set[Actor] = set()

    def add(self, name: str, work: Callable[[], object]) -> Actor:
        """An actor; its work begins with the play."""
        actor = Actor(self, name, work)
        self.actors.append(actor)
        return actor

    @property
    def gave_up(self) -> bool:
        """Whether an actor ended with an error, so that what it was to do may not be done."""
        return any(actor.error is not None for actor in self.actors)

    def perform(self) -> None:
        """Play to the end."""
        for actor in self.actors:
            actor.thread.start()
        try:
            self._direct()
        finally:
            self.is_over = True
            for actor in self.actors:
                actor.fault = Fault.NONE
                actor.turn.release()
            for actor in self.actors:
                actor.thread.join(HUNG_SECONDS)
                self.figures.repeats += actor.repeats

    def arrived(self, actor: Actor, state: State) -> None:
        """An actor's thread has come to its next gate, or to its end."""
        with self._arrivals:
            actor.state = state
            self._arrivals.notify()

    def _direct(self) -> None:
        last: Actor | None = None
        while True:
            self._settle(last)
            ready = [actor for actor in self.actors if actor.state is State.AT_GATE]
            if not ready:
                if all(actor.state is State.DONE for actor in self.actors):
                    return
                self._await_one()  # they wait for each other, until the server ends one of them
                continue
            if self.figures.turns >= MAX_TURNS:
                raise PlayFailed(f"no end after {MAX_TURNS} turns")
            last = ready[self.order.choose([self.actors.index(actor) for actor in ready])]
            self._hand_to(last)

    def _hand_to(self, actor: Actor) -> None:
        if actor.ends_transaction and actor.connection is not None:
            told = self._watch.committing(actor.connection)
            if told:
                self.history.append(Step("(servers)", told))
        actor.step = Step(actor.name, actor.wanted, actor.ends_transaction)
        actor.fault = self._draw_fault(actor)
        self.history.append(actor.step)
        self.figures.turns += 1
        actor.state = State.MOVING
        actor.turn.release()

    def _draw_fault(self, actor: Actor) -> Fault:
        if actor.connection is None:
            return Fault.NONE
        number = self._random.random()
        shares = self._faults
        if number < shares.rolled_back:
            fault = Fault.ROLLED_BACK
        elif actor.ends_transaction and number < shares.rolled_back + shares.answer_lost:
            fault = Fault.ANSWER_LOST
        else:
            return Fault.NONE
        self.figures.faults += 1
        return fault

    def _settle(self, last: Actor | None) -> None:
        """Return when everybody is at a gate, at the end, or waits for a lock."""
        waited = 0.0
        while True:
            with self._arrivals:
                self._arrivals.wait_for(lambda: not self._moving(), PATIENCE_SECONDS)
            if last is not None and last.state is not State.MOVING:
                if last.step is not None and last.step.ends_transaction and last.connection:
                    self._watch.committed(last.connection)
                last = None
            outside = [actor for actor in self.actors if actor.state is State.MOVING]
            if not outside:
                self._in_lock.clear()
                return
            in_lock = self._ask(outside)
            for actor in in_lock - self._in_lock:
                self.figures.lock_waits += 1
                if actor.step is not None:
                    actor.step.waited = True
            self._in_lock = in_lock
            if not self._moving():
                return
            waited += PATIENCE_SECONDS
            if waited > HUNG_SECONDS:
                raise PlayFailed(f"{', '.join(a.name for a in self._moving())} hung")

    def _moving(self) -> list[Actor]:
        return [
            actor
            for actor in self.actors
            if actor.state is State.MOVING and actor not in self._in_lock
        ]

    def _ask(self, outside: Sequence[Actor]) -> set[Actor]:
        by_connection = {a.connection: a for a in outside if a.connection is not None}
        return {by_connection[each] for each in self._watch.waiting(list(by_connection))}

    def _await_one(self) -> None:
        waiting = {actor for actor in self.actors if actor.state is State.MOVING}
        with self._arrivals:
            came = self._arrivals.wait_for(
                lambda: any(actor.state is not State.MOVING for actor in waiting), HUNG_SECONDS
            )
        if not came:
            raise PlayFailed("everybody waits for a lock")
