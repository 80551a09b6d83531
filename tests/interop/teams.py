"""Tickwheel with an executor for each client, so that stories of all clients go on side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from traceback import format_exception
from typing import Any

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.interop.clients import Client, RunningClient, start
from tests.support.polling import wait_until

TOKEN = "sesame-open"
RUN_SHIFT = 16  # a logId is the run's number, with the attempt and the copy in its low bits
ENDED = ("succeeded", "failed", "timed_out", "cancelled", "lost", "skipped")


@dataclass(slots=True, kw_only=True)
class Team:
    """An executor of the protocol, and the processes of one client that are its nodes."""

    client: Client
    cluster: Cluster
    directory: Path
    app: str
    executor_id: int
    processes: list[RunningClient] = field(default_factory=list)
    jobs: dict[str, int] = field(default_factory=dict)

    def start(self, name: str, *, port: int | None = None, **environment: str) -> RunningClient:
        """One more process, which registers itself; one of the same name goes on with its files."""
        base = "" if self.client.dialect == "C" else "/xxl-job-admin"
        process = start(
            self.client,
            self.directory / name,
            admins=[admin.url + base for admin in self.cluster.admins],
            token=TOKEN,
            app=self.app,
            port=port,
            environment=environment,
        )
        self.processes.append(process)
        return process

    @property
    def one(self) -> RunningClient:
        return self.processes[0]

    @property
    def two(self) -> RunningClient:
        return self.processes[1]

    @property
    def api(self) -> Api:
        return self.cluster.api()

    def executor(self) -> Any:
        return self.api.get(f"/executors/{self.executor_id}")

    def address(self, process: RunningClient) -> Any:
        """What is known of where a process listens."""
        wanted = process.url.rstrip("/")
        found = self.executor()["xxl_job"]["known_addresses"]
        return next((each for each in found if each["address"] == wanted), None)

    def node(self, process: RunningClient) -> Any:
        """Its newest node; None: there is none."""
        found = [each for each in self.executor()["nodes"] if each["name"] == name_of(process)]
        return max(found, key=lambda each: each["id"], default=None)

    def wait_for_nodes(self, count: int, *, timeout_seconds: float = 25) -> None:
        wait_until(
            lambda: self.executor()["live_nodes"] == count,
            timeout_seconds=timeout_seconds,
            what=f"{self.client} to have {count} live nodes",
        )

    def job(self, handler: str, **fields: Any) -> int:
        """A job of this handler and these settings, made when it is first asked for."""
        name = f"{self.app} {handler} {sorted(fields.items())}"[:200]
        if name not in self.jobs:
            fields = {"executor_id": self.executor_id, "name": name, "handler": handler} | fields
            self.jobs[name] = int(self.api.post("/jobs", fields)["id"])
        return self.jobs[name]

    def run(
        self, handler: str, param: str = "", *, on: RunningClient | None = None, **fields: Any
    ) -> int:
        """Ask for one run, perhaps on a node of its own choice; its id."""
        body: dict[str, Any] = {"parameters": {"param": param}}
        if on is not None:
            body["node"] = name_of(on)
        return int(self.api.post(f"/jobs/{self.job(handler, **fields)}/run", body)["run_id"])

    def wait(self, run_id: int, *states: str, timeout_seconds: float = 20) -> Any:
        return self.cluster.wait_for_run(
            run_id, *(states or ENDED), timeout_seconds=timeout_seconds
        )

    def log(self, run_id: int, **query: object) -> list[str]:
        """The lines of a run's log that are here by now."""
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        found = self.api.get(f"/runs/{run_id}/log?limit=5000&{asked}")
        return [line["text"] for line in found["lines"]]

    def wait_for_log(self, run_id: int, *texts: str, timeout_seconds: float = 10) -> list[str]:
        """The log, once it has all of these texts."""

        def complete() -> list[str]:
            lines = self.log(run_id)
            return lines if all(any(text in line for line in lines) for text in texts) else []

        return wait_until(
            complete, timeout_seconds=timeout_seconds, what=f"the log of run {run_id}: {texts}"
        )

    def events(self, run_id: int, *processes: RunningClient) -> list[str]:
        """What handlers noted of a run, over all its attempts: start, end, stop."""
        return [
            event.what
            for process in processes or self.processes
            for event in process.events()
            if event.log_id >> RUN_SHIFT == run_id
        ]

    def wait_for_events(self, run_id: int, *wanted: str) -> None:
        """Return when its handler has noted these; some are told to stop and do so a bit later."""
        try:
            wait_until(lambda: self.events(run_id) == list(wanted))
        except TimeoutError:
            raise AssertionError(f"{self.client} noted {self.events(run_id)}") from None


Story = Callable[[Team], None]


class Teams:
    """Plays the stories of each client one after the other, all clients at once."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        # Processes end with the thread that started them: these live as long as this does.
        self._threads = ThreadPoolExecutor(16)
        self._teams: list[Team] = []

    def play(
        self, clients: Sequence[Client], stories: Sequence[Story], *, processes: Sequence[str]
    ) -> Mapping[tuple[Client, Story], Future[str]]:
        """Begin; each result is what went wrong in one story of one client, empty for nothing."""
        results: dict[tuple[Client, Story], Future[str]] = {
            (client, story): Future() for client in clients for story in stories
        }
        for client in clients:
            own = {story: results[client, story] for story in stories}
            self._threads.submit(self._play_one, client, own, processes)
        return results

    def _play_one(
        self, client: Client, results: Mapping[Story, Future[str]], processes: Sequence[str]
    ) -> None:
        try:
            team = make_team(self._cluster, client, self._directory / str(client))
            self._teams.append(team)
            for name in processes:
                team.start(name)
        except BaseException as error:  # noqa: BLE001 - each of its tests tells
            for result in results.values():
                result.set_result(_told(error))
            return
        for story, result in results.items():
            began = time.monotonic()
            try:
                story(team)
            except BaseException as error:  # noqa: BLE001 - the test tells
                result.set_result(_told(error))
                if story is next(iter(results)):
                    break  # what is not there cannot do anything
            else:
                result.set_result("")
            print(f"{client} {story.__name__}: {time.monotonic() - began:.1f} s")
        for result in results.values():
            if not result.done():
                result.set_result("The first story failed.")

    def close(self) -> None:
        for team in self._teams:
            for process in team.processes:
                process.__exit__()
        self._threads.shutdown(wait=True, cancel_futures=True)


def make_team(
    cluster: Cluster, client: Client, directory: Path, *, app: str = "", **fields: Any
) -> Team:
    """An executor of this protocol, without processes."""
    app = app or f"app-{client}".replace(".", "-").lower()
    settings = {"app_name": app, "token": TOKEN, "addresses": None} | fields
    body = {"name": app, "protocol": "xxl_job", "xxl_job": settings}
    made = cluster.api().post("/executors", body)
    directory.mkdir(parents=True, exist_ok=True)
    return Team(
        client=client, cluster=cluster, directory=directory, app=app, executor_id=made["id"]
    )


def name_of(process: RunningClient) -> str:
    """What its node is called."""
    return f"127.0.0.1:{process.port}"


def _told(error: BaseException) -> str:
    return "".join(format_exception(error))
