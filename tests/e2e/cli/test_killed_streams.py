"""A reader of events of runs, whose admin is killed: it is told of each ended run once."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.support.nightly import IS_NIGHT
from tests.support.polling import wait_until
from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.event_following import events_of
from tickwheel_admin.cli.client.target import Target

RUNS_BEFORE = 10  # that have ended when the admin is killed
RUNS = 60
MEET_SECONDS = 120.0  # a node waits up to 15 s before it knocks again; the machine may be busy


@pytest.fixture(params=["sqlite", "mariadb", "postgresql"] if IS_NIGHT else ["postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


class Reader(threading.Thread):
    """Follows the ends of all runs; after a lost connection it goes on where it was."""

    def __init__(self, target: Target) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[int, int, int]] = []  # number of the event, job, run
        self.connections_lost = 0
        self.broken: BaseException | None = None
        self._target = target
        self._ended = threading.Event()

    def run(self) -> None:
        try:
            with AdminApi(self._target) as api:
                for event in events_of(api, after=None, sleep=self._pause, state="succeeded"):
                    self.seen.append((event["seq"], event["job_id"], event["run_id"]))
        except BaseException as error:  # noqa: BLE001 - it is the test that tells it
            self.broken = error

    def runs_of(self, job_id: int) -> list[int]:
        """Runs of a job whose end was told, as often as that was."""
        if self.broken is not None:
            raise self.broken
        return [run for _, job, run in self.seen if job == job_id]

    def _pause(self, seconds: float) -> None:
        self.connections_lost += 1
        self._ended.wait(seconds)


def test_a_reader_is_told_each_ended_run_once_though_its_admin_is_killed(
    database_url: str, tmp_path: Path
) -> None:
    has_two = not database_url.startswith("sqlite")  # the embedded database has one admin
    with Cluster(tmp_path, database_url) as cluster:
        first = cluster.start_admin("admin-1")
        cluster.add_executor()
        second = cluster.start_admin("admin-2") if has_two else first
        node = cluster.start_node("node-1")
        if has_two:
            node.process.wait_for_line("connected to admin admin-2", timeout_seconds=MEET_SECONDS)
        warm_up, counted = (cluster.add_job(name, "noop") for name in ("warm-up", "counted"))
        urls = tuple(dict.fromkeys((first.url, second.url)))
        reader = Reader(Target(urls=urls, token=cluster.api().token, ca_file=None))
        reader.start()

        def warm() -> bool:
            cluster.run_job(warm_up)
            return bool(reader.runs_of(warm_up))

        wait_until(warm, timeout_seconds=MEET_SECONDS, what="the reader to be told of a run")

        runs = [cluster.run_job(counted) for _ in range(RUNS_BEFORE)]
        wait_until(
            lambda: reader.runs_of(counted),
            timeout_seconds=MEET_SECONDS,
            what="the first of the runs that count",
        )
        # Ends of runs are on their way now: at the node, in the admin's hands, in the database.
        runs += [cluster.run_job(counted) for _ in range(RUNS_BEFORE)]
        first.process.kill()
        if not has_two:
            cluster.start_admin("admin-1", port=first.port)
        runs += [cluster.run_job(counted) for _ in range(RUNS - len(runs))]
        for run_id in runs:
            cluster.wait_for_run(run_id, "succeeded", timeout_seconds=MEET_SECONDS)
        wait_until(
            lambda: set(reader.runs_of(counted)) >= set(runs),
            timeout_seconds=MEET_SECONDS,
            what="the reader to be told of all",
        )
        # What comes after them says that nothing of theirs is to come.
        last = cluster.run_job(warm_up)
        wait_until(
            lambda: last in reader.runs_of(warm_up),
            timeout_seconds=MEET_SECONDS,
            what="the reader to be told of the last run",
        )
        assert Counter(reader.runs_of(counted)) == Counter(runs)
        numbers = [seq for seq, _, _ in reader.seen]
        assert numbers == sorted(set(numbers))
        assert reader.connections_lost > 0
