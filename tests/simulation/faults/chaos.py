"""Disasters, drawn from the seed: every one that a real cluster meets, and more often."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random

from tests.simulation.admin_host import AdminHost
from tests.simulation.database import SimDatabase
from tests.simulation.faults.disasters import Disasters
from tests.simulation.faults.machine_faults import MachineFaults
from tests.simulation.faults.network_faults import NetworkFaults
from tests.simulation.faults.storage_faults import StorageFaults
from tests.simulation.faults.troubles import Troubles
from tests.simulation.history import History
from tests.simulation.network import Network
from tests.simulation.node_host import NodeHost
from tests.simulation.scheduler import SimLoop
from tests.simulation.store import FaultShares


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What kind of time a cluster has."""

    mean_gap_seconds: float  # between two faults
    is_siege: bool = (
        False  # few faults, that last a minute or more, instead of a storm of short ones
    )
    clock_step_ms: int = 5_000  # the database's clock is set by up to this much


class Chaos:
    """Sets off faults until it is healed."""

    def __init__(
        self,
        admins: Sequence[AdminHost],
        nodes: Sequence[NodeHost],
        *,
        loop: SimLoop,
        database: SimDatabase,
        network: Network,
        shares: FaultShares,
        troubles: Troubles,
        random: Random,
        history: History,
        weather: Weather,
        only: Sequence[str] = (),
        elsewhere: Collection[str] = (),
    ) -> None:
        """Choose the faults of this world.

        Args:
            only: names of the faults that there are; none: all that the seed chooses.
            elsewhere: names of faults that somebody else sets off.
        """
        self.faults: Counter[str] = Counter()  # by kind
        self._admins = admins
        self._nodes = nodes
        self._random = random
        self._weather = weather
        self.disasters = disasters = Disasters(loop, random, history, troubles)
        self._storage = StorageFaults(disasters, nodes, admins, database, shares, weather)
        self._network = NetworkFaults(disasters, nodes, admins, network)
        parts = (MachineFaults(disasters, nodes, admins, shares), self._network, self._storage)
        known = [
            (siege if weather.is_siege else storm, name, action)
            for part in parts
            for name, (storm, siege, action) in part.actions.items()
        ]
        was_restricted = bool(only)
        only = [name for name in only if name not in elsewhere]
        if unknown := set(only) - {name for _, name, _ in known}:
            raise ValueError(f"no such faults: {', '.join(sorted(unknown))}")
        # Each world has its own climate: some faults it never sees, others come in crowds.
        self._choices: list[tuple[str, Callable[[], None]]] = [
            (name, action)
            for weight, name, action in known
            for _ in range(weight * random.choice((0, 1, 1, 3)))
        ] or [known[0][1:]]
        if was_restricted:
            self._choices = [(name, action) for _, name, action in known if name in only]

    async def rage(self) -> None:
        """Set off one fault after the other, until cancelled."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._weather.mean_gap_seconds))
            if not self._choices:
                continue
            name, action = self._random.choice(self._choices)
            self.faults[name] += 1
            action()

    def heal(self) -> None:
        """Undo everything, and keep what was going to happen from happening."""
        self.disasters.is_over = True
        self._network.heal()
        self._storage.heal()
        for host in (*self._admins, *self._nodes):
            host.process.fuse = None
            host.thaw()
            host.start()
