"""The stage of one play: rows to begin with, admins at their seats, and the actors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from random import Random
from typing import Any, ParamSpec
from unittest.mock import patch

import msgspec

from tests.admin.kit.engine import FakeSession
from tests.interleavings.admins import Admin
from tests.interleavings.baton import Actor, FaultShares, Play
from tests.interleavings.clusters import Cluster
from tests.interleavings.props import EXECUTOR, Props, is_live
from tests.interleavings.seats import PausesAtGates
from tickwheel_admin.domain.runs.run import FINAL, Run
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Role
from tickwheel_admin.domain.users.user import Actor as Person
from tickwheel_admin.store.database import database as store_database
from tickwheel_admin.store.database.database import DatabaseUnavailable
from tickwheel_shared.protocol import Outcome, Result

P = ParamSpec("P")

PERSON = Person(user_id=1, name="ada", grants={ALL_EXECUTORS: Role.ADMIN}, address="192.0.2.1")


class Stage(Props):
    """What one scenario is played on with one seed."""

    def __init__(self, cluster: Cluster, name: str, seed: int, faults: FaultShares) -> None:
        self.cluster = cluster
        self.random = Random(f"{name}/{seed}")
        self.violations: list[str] = []
        self.admins: list[Admin] = []
        self.play = Play(Random(f"{name}/{seed}/baton"), cluster, faults)
        self._free_seats = cluster.seats[1:]  # the first one is the stage's own
        self._allowed: dict[Actor, tuple[type[BaseException], ...]] = {}
        cluster.begin(Random(f"{name}/{seed}/cluster"))
        super().__init__(cluster.quiet.engine.connect())

    def admin(self) -> Admin:
        """One more admin, at the next seat."""
        admin = self._seated(len(self.admins) + 1)
        self.add_admin(admin.admin_id, admin.name)
        self.admins.append(admin)
        return admin

    def twin(self, admin: Admin) -> Admin:
        """The same admin once more, at another seat, for what it does at the same time."""
        twin = self._seated(admin.admin_id, server=admin.seat.server)
        twin.links.sessions = dict(admin.links.sessions)
        return twin

    def _seated(self, admin_id: int, *, server: int | None = None) -> Admin:
        seat = next(seat for seat in self._free_seats if server in (None, seat.server))
        self._free_seats.remove(seat)
        return Admin(seat, admin_id=admin_id, random=self.random)

    def node(self, *, heard_by: Iterable[Admin] = (), slots: int = 10, **changes: Any) -> int:
        """A live node with sessions at these admins."""
        node_id = self.add_node(slots=slots, **changes)
        for admin in heard_by:
            self.hears(admin, node_id)
        return node_id

    def hears(self, admin: Admin, node_id: int) -> int:
        """Give the admin a session with the node; returns its id."""
        admin.links.sessions[node_id] = FakeSession(node_id, EXECUTOR)
        return self.add_session(node_id, admin.admin_id)

    def acts(
        self,
        admin: Admin,
        what: str,
        work: Callable[P, Awaitable[object]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Actor:
        """An actor of the play: what this admin does, on a thread of its own."""

        async def perform() -> object:
            return await work(*args, **kwargs)

        return self.play.add(f"{admin.name} {what}", lambda: asyncio.run(perform()))

    def may_raise(self, actor: Actor, *errors: type[BaseException]) -> Actor:
        """What else the actor may end with. A database that gives up is never a violation."""
        self._allowed[actor] = errors
        return actor

    # --- the play, and after it ------------------------------------------------------------------

    def perform(self) -> None:
        """Let the actors play to the end."""
        self._conn.commit()
        self.cluster.await_applied()
        with patch.object(store_database, "time", PausesAtGates):
            self.play.perform()
        for actor in self.play.actors:
            error = actor.error
            expected = isinstance(error, DatabaseUnavailable | None)
            if not expected and not isinstance(error, self._allowed.get(actor, ())):
                self.violations.append(f"{actor.name} raised {error!r}")
        self.cluster.await_applied()

    def afterwards(self, *works: Callable[[], Awaitable[object]]) -> None:
        """What admins would do next, one after the other."""

        async def perform() -> None:
            for work in works:
                await work()
                self.cluster.await_applied()

        self._conn.commit()
        self.cluster.await_applied()
        asyncio.run(perform())

    def finish(self, admin: Admin, *, rounds: int = 12, mends: bool = False) -> None:
        """Claim, stop and end runs, until all have ended; what is left then is stuck.

        Nodes do what they are told at once: runs succeed, those that shall be stopped are
        cancelled.

        Args:
            mends: let the sweeper take its second look at stalled lines, as it does every few
                seconds; always on Galera, where a lock that was only read does not suffice.
        """
        for _ in range(rounds):
            self.afterwards(admin.claims)
            live = [run for run in self.runs() if is_live(run) and run.node_id is not None]
            said = [
                (
                    FakeSession(run.node_id or 0, EXECUTOR),
                    result_of(
                        run,
                        Outcome.SUCCEEDED if run.cancel_requested_at is None else Outcome.CANCELLED,
                    ),
                )
                for run in live
            ]
            works = [admin.mends] if mends or self.cluster.kind == "galera" else []
            self.afterwards(partial(admin.records, *said), *works)
            if all(run.state in FINAL for run in self.runs()):
                return
        for run in self.runs():
            if run.state not in FINAL:
                self.violations.append(
                    f"run {run.id} is stuck: {run.state.value}"
                    f"{', parked' if run.is_parked else ''} ({run.reason})"
                )

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.violations.append(otherwise)

    def close(self) -> None:
        self._conn.close()


def result_of(run: Run, outcome: Outcome = Outcome.SUCCEEDED, *, value: object = None) -> Result:
    """What a node says at the end of a live run."""
    return Result(
        run=run.id,
        attempt=run.attempt,
        token=run.claim_token or "",
        outcome=outcome,
        duration_ms=5,
        result=msgspec.Raw(msgspec.json.encode(value)),
    )
