"""Real executors in Java, two admins over MariaDB, and what goes wrong between them.

Starts are counted in the files that the handlers write, not by what anybody says.
"""

from __future__ import annotations

import asyncio
import base64
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.admin.xxl_job.stub import Behaviour, StubExecutor
from tests.drill.proxy import FaultProxy
from tests.e2e.cluster import AdminProcess, Cluster
from tests.interop.clients import JAVA_3_3, OWN_C
from tests.interop.teams import TOKEN, Team, make_team
from tests.support.databases import fresh_database
from tests.support.nightly import IS_NIGHT
from tests.support.polling import wait_until
from tests.support.processes import free_port
from tests.support.servers import DatabaseServer

pytestmark = pytest.mark.skipif(JAVA_3_3.missing() is not None, reason=str(JAVA_3_3.missing()))

TAKEN_OVER_SECONDS = 45
QUIET_SECONDS = 1.5  # by so much runs of others may be late, on a busy machine
nightly = pytest.mark.skipif(not IS_NIGHT, reason="takes a minute: make test TIER=nightly")
MakeTeam = Callable[..., Team]


@pytest.fixture(scope="module")
def cluster(
    mariadb_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("bad-days")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
            patch.delenv(name)
        key = base64.urlsafe_b64encode(os.urandom(32)).decode()
        patch.setenv("TICKWHEEL_SECRET_KEY", key)  # the same for both admins
        with fresh_database(mariadb_server) as url, Cluster(directory, url) as cluster:
            for name in ("admin-1", "admin-2"):
                cluster.start_admin(name)
            yield cluster


@pytest.fixture
def new_team(cluster: Cluster, tmp_path: Path) -> Iterator[MakeTeam]:
    made: list[Team] = []

    def make(app: str, client: Any = JAVA_3_3, **fields: Any) -> Team:
        team = make_team(cluster, client, tmp_path / app, app=app, **fields)
        made.append(team)
        return team

    yield make
    for team in made:
        for process in team.processes:
            process.thaw()
            process.__exit__()


def admin_of(cluster: Cluster, address: str) -> AdminProcess:
    """The admin that serves this address."""

    def serving() -> AdminProcess | None:
        found = [
            admin
            for admin in cluster.admins
            if admin.process.is_running
            and any(
                "xxl.node_admitted" in line and f'"{address}"' in line
                for line in admin.process.output().splitlines()
            )
        ]
        return found[0] if found else None

    served = wait_until(serving, timeout_seconds=20, what=f"an admin to serve {address}")
    assert served is not None
    return served


def replace_admin(cluster: Cluster, dead: AdminProcess) -> None:
    """Start another at its port."""
    cluster.admins.remove(dead)
    cluster.start_admin(f"{dead.name}-again", port=dead.port)


class Fires:
    """Runs of another executor, one after the other, and how late each began."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._end = threading.Event()
        self.runs: list[int] = []
        self._thread = threading.Thread(target=self._fire)

    def __enter__(self) -> Fires:
        self._team.job("file")
        self._thread.start()
        return self

    def _fire(self) -> None:
        while not self._end.wait(0.25):
            self.runs.append(self._team.run("file"))

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def latest(self) -> float:
        """The seconds by which the latest of them began; each ran exactly once."""
        ended = [self._team.wait(run) for run in self.runs]
        assert {each["state"] for each in ended} == {"succeeded"}
        assert all(self._team.events(run) == ["start", "end"] for run in self.runs)
        return max(_seconds(each["started_at"]) - _seconds(each["due_at"]) for each in ended)


def _seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


@nightly
def test_one_that_is_frozen_loses_its_run_reports_late_and_delays_nobody(
    new_team: MakeTeam,
) -> None:
    team, others = new_team("frozen"), new_team("others", OWN_C)
    team.start("one")
    others.start("one")
    team.wait_for_nodes(1)
    others.wait_for_nodes(1)
    run = team.run("slow", "22")
    team.wait(run, "running")
    more = [team.run("slow", "1") for _ in range(3)]
    with Fires(others) as fires:
        time.sleep(1)
        team.one.freeze()
        waiting = [team.run("file") for _ in range(10)]  # calls that nobody answers
        lost = team.wait(run, "lost", timeout_seconds=40)
        assert lost["reason"] == "node_lost"
        team.one.thaw()
    assert fires.latest() < QUIET_SECONDS
    # It is told to stop what was given up, unless it reports its end first: that counts (G6).
    wait_until(lambda: len(team.events(run)) == 2, timeout_seconds=40, what="the end of its run")
    if team.events(run) == ["start", "end"]:
        late = team.wait(run, "succeeded", timeout_seconds=40)
        assert late["attempt"] == 1
    else:
        assert team.events(run) == ["start", "stop"]
    for each in (*more, *waiting):
        assert team.wait(each, timeout_seconds=40)["state"] in ("succeeded", "lost")
        assert team.events(each).count("start") <= 1


def test_an_admin_is_killed_between_a_call_and_its_answer(
    cluster: Cluster, new_team: MakeTeam
) -> None:
    port = free_port()
    with FaultProxy(port) as proxy:
        team = new_team("between", addresses=[proxy.url])
        team.start("one", port=port)
        team.wait_for_nodes(1)
        victim = admin_of(cluster, proxy.url)
        proxy.lose_answers()
        runs = [team.run("slow", "6") for _ in range(5)]
        wait_until(
            lambda: all(team.events(run) for run in runs),
            what="the calls to arrive",
        )
        victim.process.kill()
        proxy.keep_answers()
        ended = [team.wait(run, timeout_seconds=TAKEN_OVER_SECONDS) for run in runs]
        assert {(each["state"], each["attempt"]) for each in ended} == {("succeeded", 1)}
        assert all(team.events(run) == ["start", "end"] for run in runs)
        # The other admin goes on with the node.
        again = team.wait(team.run("file"), timeout_seconds=TAKEN_OVER_SECONDS)
        assert again["state"] == "succeeded"
    replace_admin(cluster, victim)


@nightly
def test_a_cut_cable_to_an_executor_doubles_nothing(new_team: MakeTeam) -> None:
    """It reports its runs by a way of its own, so that they count, however long the cut lasts."""
    port = free_port()
    with FaultProxy(port) as proxy:
        team = new_team("cable", addresses=[proxy.url])
        team.start("one", port=port)
        team.wait_for_nodes(1)
        run = team.run("slow", "4")
        team.wait(run, "running")
        proxy.hold()
        during = team.run("file")
        assert team.wait(run)["state"] == "succeeded"
        time.sleep(18)  # longer than a lease
        proxy.release()
        # Its call arrives now, perhaps, long after it was given up: its result counts all the same.
        time.sleep(5)
        ended = team.wait(during)
        ran = team.events(during)
        assert (ended["state"], ran) in (("succeeded", ["start", "end"]), ("lost", []))
        assert team.events(run) == ["start", "end"]


@nightly
def test_one_that_is_restarted_at_its_port_within_its_lease(new_team: MakeTeam) -> None:
    team = new_team("restarted")
    first = team.start("one")
    team.wait_for_nodes(1)
    again = team.run("slow", "8", retries=1, retry_delay_seconds=1)
    never = team.run("slow", "9", retry_on_lost=False)
    for run in (again, never):
        team.wait(run, "running")
        wait_until(lambda run=run: team.events(run) == ["start"], what="their starts")
    first.kill()
    team.start("one", port=first.port)
    assert team.wait(never, timeout_seconds=30)["state"] == "lost"  # not only after 45 s
    ended = team.wait(again, timeout_seconds=90)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
    # Both processes write into the same file.
    assert team.events(again, first) == ["start", "start", "end"]
    assert team.events(never, first) == ["start"]


@nightly
async def test_one_that_is_replaced_between_two_beats_loses_its_run_soon(
    cluster: Cluster, new_team: MakeTeam
) -> None:
    """Nobody finds nobody there: the connection of the last beat is gone, and no more."""
    team = new_team("replaced", OWN_C)
    stub = StubExecutor(
        admin=cluster.admins[0].url, app_name=team.app, token=TOKEN, behaviour=Behaviour()
    )
    stub.behaviour.run_seconds = 600
    await stub.start()
    try:
        await asyncio.to_thread(team.wait_for_nodes, 1)
        run = await asyncio.to_thread(team.run, "anything", retry_on_lost=False)
        await asyncio.to_thread(team.wait, run, "running")
        await asyncio.sleep(4)  # a beat or two
        await stub.crash()
        await stub.start()
        began = time.monotonic()
        lost = await asyncio.to_thread(team.wait, run, "lost", timeout_seconds=40)
        print(f"lost after {time.monotonic() - began:.1f} s")
        assert lost["attempt"] == 1
        said = "".join(admin.process.output() for admin in cluster.admins)
        assert "xxl.process_replaced" in said
    finally:
        await stub.stop()


def test_an_admin_that_is_told_to_end_loses_nothing(cluster: Cluster, new_team: MakeTeam) -> None:
    """G13: by SIGTERM, while calls are under way."""
    team = new_team("polite")
    team.start("one")
    team.wait_for_nodes(1)
    leaving = admin_of(cluster, team.one.url.rstrip("/"))
    staying = next(each for each in cluster.admins if each is not leaving)
    api = cluster.api(staying)
    job = team.job("slow")
    runs = [
        int(api.post(f"/jobs/{job}/run", {"parameters": {"param": "0.5"}})["run_id"])
        for _ in range(30)
    ]
    assert leaving.process.stop() == 0
    ended = [team.wait(run, timeout_seconds=TAKEN_OVER_SECONDS) for run in runs]
    assert {each["state"] for each in ended} == {"succeeded"}
    assert all(team.events(run) == ["start", "end"] for run in runs)
    replace_admin(cluster, leaving)


def test_one_that_goes_on_after_a_kill_is_said_to_be_running_and_can_be_released(
    new_team: MakeTeam,
) -> None:
    team = new_team("deaf", OWN_C)
    team.start("one", INTEROP_SCRIPT='{"deaf_to_kill": true}')
    team.wait_for_nodes(1)
    run = team.run("slow", "25")
    team.wait(run, "running")
    team.api.post(f"/runs/{run}/cancel")
    wait_until(
        lambda: team.api.get(f"/runs/{run}")["reason"] == "cancel_unconfirmed",
        timeout_seconds=30,
        what="the run to be said to be running still",
    )
    team.api.post(f"/runs/{run}/release")
    assert team.wait(run)["state"] == "cancelled"
    assert team.events(run) == ["start"]
