"""An admin of a play: its engine and services at one seat, a coroutine for each thing it does."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from tests.admin.kit import engine
from tests.admin.kit.engine import FakeSession
from tests.interleavings.seats import Seat
from tickwheel_admin.services.calendars.service import Calendars
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.gitops.service import GitOps
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.pools.service import Pools
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.workflows.answers import StepAnswers
from tickwheel_admin.services.workflows.interventions import StepInterventions
from tickwheel_admin.store.database.ids import Ids
from tickwheel_shared.protocol import Message

M = TypeVar("M", bound=Message)

Said = tuple[FakeSession, Any]  # the socket of a node, and what came over it


class Admin(engine.Admin):
    """One admin with everything it does, at a seat of its own."""

    def __init__(self, seat: Seat, *, admin_id: int, random: Random) -> None:
        super().__init__(seat.store, admin_id=admin_id)  # type: ignore[arg-type]  # it is a Store
        self.seat = seat
        self.ids = Ids(seat.store)
        self.jobs = Jobs(seat.store, self.ids, self.events)
        self.runs = Runs(seat.store, self.ids, self.events)
        self.answers = StepAnswers(seat.store, self.ids, self.events)
        self.interventions = StepInterventions(seat.store, self.ids, self.events)
        self.pools = Pools(seat.store, self.ids, self.events)
        self.executors = Executors(seat.store, self.ids, self.events)
        self.calendars = Calendars(seat.store, self.ids, self.events)
        self.gitops = GitOps(seat.store, self.ids, self.events, Cipher([]), languages=("en",))
        self.engine.dispatcher._random = Random(random.random())
        self.engine.planner._random = Random(random.random())
        self.engine.leases.may_expire = lambda: True  # type: ignore[method-assign]
        self.engine.leases.expected_database_ms = lambda: None  # type: ignore[method-assign]

    @property
    def name(self) -> str:
        return f"admin {self.admin_id}"

    async def plans(self) -> None:
        await self.engine.planner.run_once()

    async def refreshes(self) -> None:
        """Compute triggers anew whose calendar changed; zones are nobody's business in plays."""
        self.engine.refresher._zones_are_current = True
        await self.engine.refresher.run_once()

    async def claims(self) -> None:
        await self.engine.dispatcher.run_once()

    def waits_out_contention(self) -> None:
        """Let the moment pass for which it leaves a queue to others who were claiming from it."""
        self.engine.dispatcher._contended.clear()

    async def sweeps(self) -> None:
        await self.engine.sweeper.run_once()

    async def settles_deaths(self) -> None:
        """The part of a sweep that looks for dead nodes and loses their runs."""
        await self.engine.sweeper._move_lost_runs()

    async def mends(self) -> None:
        """Sweep with the second look at what stalled, whenever that was last taken."""
        self.engine.sweeper._repaired_at = -1e9
        await self.sweeps()

    async def renews(self) -> None:
        await self.engine.leases.run_once()

    async def records(self, *said: Said) -> None:
        for session, message in said:
            self.engine.recorder.receive(session, [message])
        while await self.engine.recorder.run_once():
            pass

    def sent(self, kind: type[M]) -> list[M]:
        """Messages of one kind that went to nodes, oldest first."""
        return [
            message
            for session in self.links.sessions.values()
            for message in session.sent
            if isinstance(message, kind)
        ]
