"""Jobs that break down together, and people who have their runs done again, wave by wave.

They also kill admins while a canary retry goes on, one or all of them: whoever drove it is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.simulation.admin_host import AdminHost
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tests.simulation.operators import Operators
from tests.simulation.scheduler import SimLoop
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role

# Without an account, as the command line: what somebody with one may do is asked at each wave.
PERSON = Actor(user_id=0, name="person", grants={ALL_EXECUTORS: Role.ADMIN})


def breaking_jobs(random: Random, executor: str) -> list[dict[str, Any]]:
    """Two jobs of an executor that fail with one word; each run is tried once."""
    return [
        {
            "name": f"{executor}-breaking-{number}",
            "handler": "breaking",
            "triggers": [{"kind": "fixed_rate", "every_seconds": random.choice((0.75, 1))}],
        }
        for number in range(2)
    ]


class CanaryPeople:
    """People who retry failures, stop that, and kill admins meanwhile."""

    def __init__(
        self,
        admins: Sequence[AdminHost],
        operators: Operators,
        database: SimDatabase,
        random: Random,
        history: History,
        *,
        loop: SimLoop,
        kills: bool,
    ) -> None:
        self._admins = admins
        self._operators = operators
        self._database = database
        self._random = random
        self._history = history
        self._loop = loop
        self._kills = kills
        self.stopping: set[int] = set()  # groups whose retries somebody wanted to end
        self.killed_under: set[int] = set()  # canary retries that went on when admins were killed

    async def work(self) -> None:
        """Do something every now and then, until cancelled."""
        while True:
            await asyncio.sleep(self._random.uniform(0.1, 0.6))
            serving = [admin for admin in self._admins if admin.is_up]
            if not serving:
                continue
            action = self._random.choice((self._start, self._start, self._start, self._stop))
            self._operators.spawn(action, self._random.choice(serving))
            if self._kills and self._random.random() < 0.1:
                self._kill(serving)

    async def _start(self, admin: AdminHost) -> None:
        groups = self._database.rows(
            "SELECT id FROM failure_group WHERE is_resolved = 0 ORDER BY id"
        )
        if not groups:
            return
        group_id = self._random.choice(groups).id
        for other in self._admins:  # a second person, at the same time
            if other is not admin and other.is_up and self._random.random() < 0.2:
                self._operators.spawn(lambda each: self._ask(each, group_id), other)
        await self._ask(admin, group_id)

    async def _ask(self, admin: AdminHost, group_id: int) -> None:
        canary_id = await admin.failures.retry(PERSON, group_id)
        self._history.note("person", f"retries failure {group_id}: {canary_id}")

    async def _stop(self, admin: AdminHost) -> None:
        going_on = self._going_on()
        if not going_on or self._random.random() < 0.9:
            return
        group_id = self._random.choice(going_on).group_id
        self.stopping.add(group_id)
        self._history.note("person", f"stops retrying failure {group_id}")
        await admin.failures.stop_retry(PERSON, group_id)

    def _kill(self, serving: Sequence[AdminHost]) -> None:
        going_on = self._going_on()
        if not going_on:
            return
        self.killed_under |= {row.id for row in going_on}
        every = self._random.random() < 0.5
        for admin in serving if every else [self._random.choice(serving)]:
            admin.kill()
            self._loop.world_later(self._random.uniform(0.1, 2), admin.start)

    def _going_on(self) -> list[Any]:
        return self._database.rows(
            "SELECT id, group_id FROM failure_canary WHERE state = 'running' ORDER BY id"
        )
