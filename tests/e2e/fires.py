"""Jobs that fire at an even rate, and the checks of all their fires when all is quiet again."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from tests.e2e.cluster import Cluster
from tests.e2e.ledger import (
    Journals,
    Ledger,
    LedgerReader,
    Problem,
    overlaps,
    problems,
    read_journals,
)
from tests.support.polling import wait_until

ROUTINGS = ("round_robin", "random", "least_busy", "failover")
STUCK_SECONDS = 60.0  # without one more ended run


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """All that happened, and what of it must not."""

    ledger: Ledger
    journals: Journals
    serial_jobs: frozenset[int]  # their fires wait for each other
    problems: list[Problem]


class Fires:
    """Added at once; paused and held against the journals by `settle`."""

    def __init__(
        self,
        cluster: Cluster,
        reader: LedgerReader,
        *,
        name: str = "job",
        jobs: int = 10,
        per_second: int = 5,
        longest_seconds: float = 0.8,
        serial: bool = False,
        earlier: Collection[int] = (),
    ) -> None:
        """Begin to fire two seconds from now.

        Args:
            jobs: how many, and `per_second` how often each fires.
            longest_seconds: a fifth of the jobs works so long, the others less.
            earlier: runs in the journals that were checked before.
            serial: one more, whose runs must not overlap, fires once a second.
        """
        self.cluster = cluster
        self.reader = reader
        self._per_second = per_second
        self._earlier = earlier
        self._longest_seconds = longest_seconds
        self.jobs = [self._add(f"{name}-{number:02}", number, jobs) for number in range(jobs)]
        self.serial_jobs = [self._add_serial(f"{name}-serial")] if serial else []

    def _add(self, name: str, number: int, jobs: int) -> int:
        first = round(time.time() * 1000) + 2_000
        step = 1_000 // (jobs * self._per_second)
        return self.cluster.add_job(
            name,
            "work",
            parameters={"seconds": self._longest_seconds * (number % 5) / 4},
            routing=ROUTINGS[number % 4],
            # A few are not repeated after a node died, so that lost runs are seen as well.
            retries=3,
            retry_delay_seconds=1,
            retry_on_lost=number % 5 > 0,
            triggers=[
                {
                    "kind": "fixed_rate",
                    "every_seconds": 1,
                    "anchor_at": first + step * (number * self._per_second + n),
                    "misfire": "fire_all",
                }
                for n in range(self._per_second)
            ],
        )

    def _add_serial(self, name: str) -> int:
        first = round(time.time() * 1000) + 2_000
        return self.cluster.add_job(
            name,
            "work",
            parameters={"seconds": 0.1},
            blocking="serial",
            retries=3,
            retry_delay_seconds=1,
            triggers=[
                {
                    "kind": "fixed_rate",
                    "every_seconds": 1,
                    "anchor_at": first,
                    "misfire": "fire_all",
                }
            ],
        )

    def settle(self) -> Settled:
        """Pause all triggers and wait until nothing goes on; TimeoutError when something does."""
        api = self.cluster.api()
        paused_at = round(time.time() * 1000)  # the servers run on this machine
        for job in (*self.jobs, *self.serial_jobs):
            api.post(f"/jobs/{job}/pause")
        wait_for_ends(self.reader)
        wait_until(
            lambda: not any(node.in_use for node in self.reader.read(self.jobs).nodes),
            timeout_seconds=5,
            what="every slot to be given back",
        )
        ledger = self.reader.read([*self.jobs, *self.serial_jobs])
        journals = read_journals((node.journal for node in self.cluster.nodes), self._earlier)
        found = problems(ledger, journals, paused_at=paused_at)
        found += overlaps(ledger, journals, self.serial_jobs)
        return Settled(
            ledger=ledger,
            journals=journals,
            serial_jobs=frozenset(self.serial_jobs),
            problems=found,
        )


def wait_for_ends(reader: LedgerReader) -> None:
    """A busy machine may take long; what is stuck does not become less."""
    fewest, deadline = reader.live_runs(), time.monotonic() + STUCK_SECONDS
    while fewest:
        time.sleep(0.2)
        live = reader.live_runs()
        if live < fewest:
            fewest, deadline = live, time.monotonic() + STUCK_SECONDS
        elif time.monotonic() > deadline:
            raise TimeoutError(f"{live} runs do not end")
