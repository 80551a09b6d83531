"""An executor in Java that speaks XXL-JOB's protocol, and fires whose starts its own files tell."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.drill.bed import Bed
from tests.drill.proxy import FaultProxy
from tests.e2e.ledger import Journals, Ledger, Problem, problems
from tests.interop.clients import JAVA_3_3, RunningClient, start
from tests.support.polling import wait_until
from tests.support.processes import free_port

CLIENT = JAVA_3_3
TOKEN = "sesame-open"
SECONDS = ("0", "0.2", "0.6", "2")  # that the runs of each job take
PER_JOB = 2  # fires a second
STUCK_SECONDS = 90.0  # without one more ended run; some are given up after 45 s


class JavaProcess:
    """One process. With proxies, all that it says and is told passes through them."""

    def __init__(self, bed: Bed, directory: Path, app: str, stack: ExitStack | None) -> None:
        self._directory = directory
        self._app = app
        self._port = free_port()
        ports = [bed.admins[name].port for name in bed.admin_names]
        self.address = f"http://127.0.0.1:{self._port}"
        self.proxies: list[FaultProxy] = []
        if stack is not None:
            inbound = stack.enter_context(FaultProxy(self._port))
            relays = [stack.enter_context(FaultProxy(port)) for port in ports]
            self.proxies = [inbound, *relays]
            self.address = inbound.url
            self._admins = [relay.url for relay in relays]
        else:
            self._admins = [f"http://127.0.0.1:{port}" for port in ports]
        self.process: RunningClient | None = None

    def start(self) -> None:
        """At its port, with the files of the process before it."""
        self.process = start(
            CLIENT,
            self._directory,
            admins=[f"{url}/xxl-job-admin" for url in self._admins],
            token=TOKEN,
            app=self._app,
            port=self._port,
        )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def freeze(self) -> None:
        assert self.process is not None
        self.process.freeze()

    def thaw(self) -> None:
        assert self.process is not None
        self.process.thaw()

    def hold(self) -> None:
        """Nothing passes in either direction, and nothing is closed."""
        for proxy in self.proxies:
            proxy.hold()

    def release(self) -> None:
        for proxy in self.proxies:
            proxy.release()

    def started(self) -> list[tuple[int, int]]:
        """(run, attempt) of each start, in order."""
        return [key for what, key in self.noted() if what == "start"]

    def noted(self) -> Iterable[tuple[str, tuple[int, int]]]:
        """What its handlers wrote: start, end or stop, with (run, attempt)."""
        events = self.process.events() if self.process is not None else []
        return [(each.what, (each.log_id >> 16, each.log_id >> 8 & 0xFF)) for each in events]


class JavaExecutor:
    """Two processes of one executor, ended with the `with` block."""

    def __init__(self, bed: Bed, name: str, *, is_proxied: bool = False) -> None:
        """Make it, and wait until both are nodes.

        Args:
            is_proxied: its addresses are those of proxies, set by hand.
        """
        self._bed = bed
        self._stack = ExitStack()
        self.jobs: list[int] = []
        app = f"{name} {time.monotonic_ns()}".replace(" ", "-")
        directory = bed.cluster.directory / app
        proxies = self._stack if is_proxied else None
        self.processes = [
            JavaProcess(bed, directory / each, app, proxies) for each in ("one", "two")
        ]
        made = bed.cluster.api().post(
            "/executors",
            {
                "name": app,
                "protocol": "xxl_job",
                "xxl_job": {
                    "app_name": app,
                    "token": TOKEN,
                    "addresses": [each.address for each in self.processes] if is_proxied else None,
                },
            },
        )
        self.id = int(made["id"])
        try:
            for each in self.processes:
                each.start()
            self.wait_for_nodes(2)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.processes:
            if each.process is not None:
                each.process.thaw()
                each.process.__exit__()
        self._stack.close()

    def wait_for_nodes(self, count: int) -> None:
        api = self._bed.cluster.api
        wait_until(
            lambda: api().get(f"/executors/{self.id}")["live_nodes"] == count,
            timeout_seconds=60,
            what=f"{count} live nodes of Java",
        )

    def fire(self) -> None:
        """Begin, two seconds from now."""
        first = round(time.time() * 1000) + 2_000
        count = len(SECONDS) * PER_JOB
        for number, seconds in enumerate(SECONDS):
            self.add_job(
                f"every {seconds}",
                seconds,
                retry_on_lost=number > 0,
                triggers=[
                    {
                        "kind": "fixed_rate",
                        "every_seconds": 1,
                        "anchor_at": first + 1_000 * (number * PER_JOB + n) // count,
                        "misfire": "fire_all",
                    }
                    for n in range(PER_JOB)
                ],
            )

    def add_job(self, name: str, seconds: str, **fields: Any) -> int:
        """A job whose runs take so long; its id."""
        job = {
            "executor_id": self.id,
            "name": f"{self.id} {name} {time.monotonic_ns()}",
            "handler": "slow",
            "parameters": {"param": seconds},
            "retries": 3,
            "retry_delay_seconds": 1,
        }
        made = int(self._bed.cluster.api().post("/jobs", job | fields)["id"])
        self.jobs.append(made)
        return made

    def settle(self) -> tuple[Ledger, list[Problem]]:
        """Pause all triggers, wait until all is quiet, and hold the ledger against the files."""
        bed = self._bed
        api = bed.cluster.api()
        paused_at = round(time.time() * 1000)
        for job in self.jobs:
            api.post(f"/jobs/{job}/pause")
        self._wait_for_ends()
        ledger = bed.reader.read(self.jobs)
        journals = self._journals()
        found = problems(ledger, journals, paused_at=paused_at, has_results=False)
        return ledger, found

    def _wait_for_ends(self) -> None:
        jobs = ", ".join(map(str, self.jobs))
        query = (
            f"SELECT count(*) FROM run WHERE job_id IN ({jobs})"
            " AND state IN ('queued', 'dispatched', 'running')"
        )
        left, deadline = -1, 0.0
        while (live := int(self._bed.reader.query(query)[0][0])) > 0:
            if live != left:
                left, deadline = live, time.monotonic() + STUCK_SECONDS
            if time.monotonic() > deadline:
                raise TimeoutError(f"{live} runs of Java do not end")
            time.sleep(0.5)

    def _journals(self) -> Journals:
        noted = [each for process in self.processes for each in process.noted()]
        return Journals(
            starts=Counter(key for what, key in noted if what == "start"),
            ends=Counter(key for what, key in noted if what == "end"),
            started_at={},
            left_at={},
        )

    def runs_of(self, process: JavaProcess, among: Collection[int]) -> list[int]:
        """Which of these runs began there."""
        return [run for run, _ in process.started() if run in among]
