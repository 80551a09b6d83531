"""The part of a world that speaks XXL-JOB's protocol: some seeds have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from tests.simulation.admin_host import CIPHER, AdminHost
from tests.simulation.faults.disasters import Disasters
from tests.simulation.faults.troubles import Troubles
from tests.simulation.handlers import Journal
from tests.simulation.history import History
from tests.simulation.network import Network
from tests.simulation.operators import OPERATOR
from tests.simulation.scheduler import SimLoop
from tests.simulation.xxl_executors.faults import XxlFaults
from tests.simulation.xxl_executors.host import XxlHost
from tests.simulation.xxl_executors.jobs import make_xxl_jobs
from tests.simulation.xxl_executors.truth import Truth
from tests.simulation.xxl_executors.wire import TOKEN, Wire
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.xxl_job.service import XxlExecutors
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids

SHARE = 0.5  # of the seeds
APP = "legacy-app"


class XxlWorld:
    """Executors of the protocol, their jobs and their faults."""

    def __init__(
        self,
        *,
        seed: int,
        loop: SimLoop,
        network: Network,
        history: History,
        journal: Journal,
        troubles: Troubles,
    ) -> None:
        self.wire = Wire(network, loop, Random(f"{seed}/xxl/wire"), history)
        self.truth = Truth(history)
        self.hosts: list[XxlHost] = []
        self._seed = seed
        self._loop = loop
        self._network = network
        self._history = history
        self._journal = journal
        self._troubles = troubles
        self._faults: XxlFaults | None = None
        self.executor_id = 0  # once it is prepared

    @classmethod
    def drawn(cls, wanted: bool | None, *, seed: int, **parts: object) -> XxlWorld | None:
        """One, if it is wanted or the seed says so."""
        if wanted is None:
            wanted = Random(f"{seed}/xxl").random() < SHARE
        return cls(seed=seed, **parts) if wanted else None  # type: ignore[arg-type]

    def add_hosts(self, admins: Sequence[str]) -> None:
        random = Random(f"{self._seed}/xxl/hosts")
        for number in range(1, random.choice((1, 2, 2, 3)) + 1):
            name = f"xxl-{number}"
            self.hosts.append(
                XxlHost(
                    name,
                    number,
                    app_name=APP,
                    dialect=random.choice("AABC"),
                    admins=random.sample(list(admins), random.randint(1, len(admins))),
                    keeps_disk=random.random() < 0.6,
                    wire=self.wire,
                    truth=self.truth,
                    journal=self._journal,
                    loop=self._loop,
                    network=self._network,
                    random=Random(f"{self._seed}/{name}"),
                    history=self._history,
                    seed=self._seed,
                    troubles=self._troubles,
                )
            )

    async def prepare(self, store: Store, ids: Ids, jobs: Jobs) -> None:
        """Store the executor and its jobs."""
        self.executor_id = await XxlExecutors(store, ids, Events(), CIPHER).create(
            OPERATOR, name="legacy", app_name=APP, token=TOKEN
        )
        for raw in make_xxl_jobs(Random(f"{self._seed}/xxl/jobs"), "legacy"):
            job_id = await jobs.create(OPERATOR, self.executor_id, raw)
            self._history.note("world", f"job {job_id}: {raw}")

    def faults(
        self, disasters: Disasters, admins: Sequence[AdminHost], only: Sequence[str]
    ) -> XxlFaults:
        random = Random(f"{self._seed}/xxl/faults")
        self._faults = XxlFaults(
            disasters, self.hosts, admins, self.wire, self._network, random, only=only
        )
        return self._faults

    @property
    def seen(self) -> Counter[str]:
        """Faults, by kind."""
        return self._faults.faults if self._faults is not None else Counter()

    def heal(self) -> None:
        if self._faults is not None:
            self._faults.heal()

    def undelivered(self) -> list[str]:
        """Reports that wait to be sent again."""
        return [
            f"report of run {report['logId'] >> 16} on the disk of {host.name}"
            for host in self.hosts
            for reports in host.files
            for report in reports
        ]
