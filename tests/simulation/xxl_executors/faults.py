"""What befalls executors of XXL-JOB's protocol, and how they misbehave."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from tests.simulation.admin_host import AdminHost
from tests.simulation.faults.disasters import Disasters
from tests.simulation.network import Network
from tests.simulation.xxl_executors.host import Ways, XxlHost
from tests.simulation.xxl_executors.wire import Wire

MEAN_GAP_SECONDS = 4.0
XXL_FAULTS = frozenset(
    (
        "kill executor", "restart executor", "stop executor", "freeze executor", "cut executor",
        "isolate executor", "slow executor", "late kills", "unanswered calls",
        "dropped runs", "idle lies", "denied logs", "lost reports", "doubled reports",
        "repeated calls", "owner killed",
    )
)  # fmt: skip


class XxlFaults:
    """Sets off one fault after the other until it is healed."""

    def __init__(
        self,
        disasters: Disasters,
        hosts: Sequence[XxlHost],
        admins: Sequence[AdminHost],
        wire: Wire,
        network: Network,
        random: Random,
        *,
        only: Sequence[str] = (),
    ) -> None:
        self.faults: Counter[str] = Counter()  # by kind
        self._disasters = disasters
        self._hosts = hosts
        self._admins = admins
        self._wire = wire
        self._network = network
        self._random = random
        actions: dict[str, Callable[[], None]] = {
            "kill executor": self._kill,
            "restart executor": self._restart,
            "stop executor": self._stop,
            "freeze executor": self._freeze,
            "cut executor": self._cut,
            "isolate executor": self._isolate,
            "slow executor": lambda: self._misbehave(
                "slow_seconds", self._random.choice((0.5, 4, 10))
            ),
            "late kills": lambda: self._misbehave(
                "late_kill_seconds", self._random.choice((2, 5, 9))
            ),
            "unanswered calls": lambda: self._misbehave("unanswered_share", 0.5),
            "dropped runs": lambda: self._misbehave("drop_share", 0.5),
            "idle lies": lambda: self._misbehave("says_idle", True),
            "denied logs": lambda: self._misbehave("denies_logs", True),
            "lost reports": lambda: self._misbehave("silenced_share", 0.5),
            "doubled reports": lambda: self._misbehave("twice_share", 0.7),
            "repeated calls": self._repeat,
            "owner killed": self._kill_admin,
        }
        chosen = [
            (name, action)
            for name, action in actions.items()
            for _ in range(random.choice((0, 1, 1, 3)))
        ]
        assert set(actions) == XXL_FAULTS
        if only:
            chosen = [(name, action) for name, action in actions.items() if name in only]
        self._choices = chosen if only else chosen or list(actions.items())

    async def rage(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / MEAN_GAP_SECONDS))
            if not self._choices:
                continue
            name, action = self._random.choice(self._choices)
            self.faults[name] += 1
            action()

    def heal(self) -> None:
        """Undo everything; `Disasters` keeps the rest from happening."""
        self._wire.repeat_share = 0.0
        for host in self._hosts:
            host.ways = Ways()
            host.process.fuse = None
            host.thaw()
            host.start()

    def _a_host(self) -> XxlHost:
        return self._random.choice(self._hosts)

    def _kill(self) -> None:
        host = self._a_host()
        host.kill(vanished=self._random.random() < 0.3)
        self._disasters.later(0.2, self._random.choice((4, 25)), host.start)

    def _restart(self) -> None:
        """Under the same address, before anybody finds nobody there three times."""
        host = self._a_host()
        host.kill()
        self._disasters.later(0.0, 1.5, host.start)

    def _stop(self) -> None:
        host = self._a_host()
        host.stop(0)
        self._disasters.later(12, 13, host.kill)
        self._disasters.later(1, 16, host.start)
        self._disasters.later(16, 18, host.start)

    def _freeze(self) -> None:
        host = self._a_host()
        host.freeze()
        self._disasters.later(0.1, self._random.choice((2, 10, 25)), host.thaw)

    def _cut(self) -> None:
        self._cut_off(self._a_host(), [self._random.choice(self._admins)])

    def _isolate(self) -> None:
        self._cut_off(self._a_host(), self._admins)

    def _cut_off(self, host: XxlHost, admins: Sequence[AdminHost]) -> None:
        longest = self._random.choice((5, 12, 40))
        for admin in admins:
            route = (host.name, admin.name)
            if route in self._network.cut:
                continue
            self._disasters.note(f"cuts {route}")
            self._network.cut_route(route)
            trouble = self._disasters.troubles.begin(node=host.name, admin=admin.name)

            def mend(route: tuple[str, str] = route, trouble: object = trouble) -> None:
                self._disasters.note(f"mends {route}")
                self._network.mend_route(route)
                self._disasters.troubles.end(trouble)  # type: ignore[arg-type]

            self._disasters.later(0.5, longest, mend)

    def _misbehave(self, what: str, how: float) -> None:
        host = self._a_host()
        self._disasters.note(f"{host.name}: {what} = {how}")
        trouble = self._disasters.troubles.begin(node=host.name)
        setattr(host.ways, what, how)

        def end() -> None:
            self._disasters.note(f"{host.name}: no {what} any more")
            setattr(host.ways, what, type(how)())
            self._disasters.troubles.end(trouble)

        self._disasters.later(1, self._random.choice((6, 20, 60)), end)

    def _repeat(self) -> None:
        self._disasters.note("a proxy sends some calls twice")
        self._wire.repeat_share = 0.4
        self._disasters.later(1, 10, lambda: setattr(self._wire, "repeat_share", 0.0))

    def _kill_admin(self) -> None:
        admin = self._random.choice(self._admins)
        admin.kill(vanished=self._random.random() < 0.3)
        self._disasters.later(10, 40, admin.start)
