"""Every client, unmodified, against a real admin: what a service has whose address was changed.

One admin serves all of them. The stories of a client follow each other, those of all clients go on
side by side, since most of their time is waiting; each test tells how one story went.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import pytest

from tests.e2e.cluster import Cluster
from tests.interop.clients import CLIENTS, JAVA_3_2, Client
from tests.interop.teams import Story, Team, Teams, make_team, name_of
from tests.support.nightly import IS_NIGHT
from tests.support.polling import wait_until

STORY_SECONDS = 240  # until the last one, on a slow machine
LOST_SECONDS = 12  # from the death of a process to the end of its runs; 8 on an idle machine


def registers_and_is_shown(team: Team) -> None:
    team.wait_for_nodes(2)
    for process in (team.one, team.two):
        known = team.address(process)
        assert known["registered_at"] is not None
        assert known["removed_at"] is None
        node = team.node(process)
        assert node["address"] == process.url.rstrip("/")


def succeeds_with_its_message_and_its_log(team: Team) -> None:
    parameter = 'Größe "1" & <b>中文</b>'
    logged = team.run("succeed", parameter)
    echoed = team.run("echo", '{"a": 1}')
    ended = team.wait(logged)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
    ended = team.wait(echoed)
    message = r'"{\"a\": 1}"' if team.client.manner.quotes else '{"a": 1}'
    assert (ended["state"], ended["result"]) == ("succeeded", message)
    team.wait_for_log(logged, f"first line: {parameter}", f"second line: {parameter}")
    assert team.events(logged) == ["start", "end"]


def fails_with_its_message(team: Team) -> None:
    ended = team.wait(team.run("fail"))
    assert (ended["state"], ended["message"]) == ("failed", team.client.manner.failed)


def shows_lines_while_it_runs_and_all_of_them_afterwards(team: Team) -> None:
    run = team.run("slow", "4")
    team.wait(run, "running")
    team.wait_for_log(run, "line 1", timeout_seconds=8)
    assert team.api.get(f"/runs/{run}")["state"] == "running"
    assert team.wait(run)["state"] == "succeeded"
    lines = team.wait_for_log(run, "line 18")
    own = [line.rpartition("line ")[2] for line in lines if "line " in line]
    assert own == [str(number + 1) for number in range(len(own))]


def refuses_a_handler_that_it_does_not_have(team: Team) -> None:
    run = team.run("nobody")
    asked = lambda: team.api.get(f"/runs/{run}")  # noqa: E731
    wait_until(lambda: asked()["waiting_for"] == "no_handler", what="the refusal")
    team.api.post(f"/runs/{run}/cancel")
    assert team.wait(run)["state"] == "cancelled"


def runs_shards_on_both_nodes(team: Team) -> None:
    runs = [
        team.run("shard", routing="broadcast"),
        team.run("shard", routing="shards", shards=3),
    ]
    for run, total in zip(runs, (2, 3), strict=True):
        ended = team.wait(run)
        assert ended["state"] == "succeeded"
        shards = {shard["shard_index"]: shard for shard in ended["shards"]}
        assert sorted(shards) == list(range(total))
        for index, shard in shards.items():
            team.wait_for_log(shard["id"], f"shard {index} of {total}")
            assert team.events(shard["id"]) == ["start", "end"]
        if total == 2:
            assert {each["node_name"] for each in shards.values()} == {
                name_of(team.one),
                name_of(team.two),
            }


def is_stopped_at_its_timeout(team: Team) -> None:
    run = team.run("slow", "20", timeout_seconds=1)
    ended = team.wait(run)
    assert ended["state"] == "timed_out"
    team.wait_for_events(run, "start", "stop")


def has_one_of_two_runs_cancelled(team: Team) -> None:
    kept, cut = (team.run("slow", seconds, on=team.one) for seconds in ("6", "30"))
    team.wait(kept, "running")
    if not team.client.manner.side_by_side:
        time.sleep(1)
        assert team.api.get(f"/runs/{cut}")["state"] == "queued"
        assert team.wait(kept)["state"] == "succeeded"
    team.wait(cut, "running")
    team.api.post(f"/runs/{cut}/cancel")
    assert team.wait(cut)["state"] == "cancelled"
    team.wait_for_events(cut, "start", "stop")
    assert team.wait(kept)["state"] == "succeeded"
    assert team.events(kept) == ["start", "end"]


def runs_on_the_node_that_somebody_chose(team: Team) -> None:
    for process in (team.two, team.one, team.two):
        ended = team.wait(team.run("file", "here", on=process))
        assert (ended["state"], ended["node_name"]) == ("succeeded", name_of(process))
        assert team.events(ended["id"], process) == ["start", "end"]


def gets_nothing_while_it_is_cordoned_or_drained(team: Team) -> None:
    node = team.node(team.two)["id"]
    for action in ("cordon", "drain"):
        team.api.post(f"/nodes/{node}/{action}")
        ended = [team.wait(run) for run in [team.run("file") for _ in range(4)]]
        assert {each["node_name"] for each in ended} == {name_of(team.one)}
        assert {each["state"] for each in ended} == {"succeeded"}
        team.api.post(f"/nodes/{node}/resume")
    ended = [team.wait(run) for run in [team.run("file") for _ in range(4)]]
    assert {each["node_name"] for each in ended} == {name_of(team.one), name_of(team.two)}


def runs_scripts_as_glue(team: Team) -> None:
    """Java's library alone runs them; what one says is its log."""
    if "java" not in team.client.tools:
        return
    for source, word in (
        ('echo "$1 $2/$3 one"\n', "one"),
        ('echo "$1 $2/$3 two"; exit 3\n', "two"),
    ):
        script = {"language": "shell", "source": source}
        run = team.run("script", "中文 a", script=script)
        ended = team.wait(run)
        assert ended["state"] == ("succeeded" if word == "one" else "failed")
        team.wait_for_log(run, f"中文 a 0/1 {word}")


def shows_its_dialect(team: Team) -> None:
    for process in (team.one, team.two):
        wait_until(
            lambda process=process: team.address(process)["dialect"] == team.client.dialect,
            timeout_seconds=15,
            what=f"dialect {team.client.dialect} instead of {team.address(process)}",
        )
        known = team.address(process)
        assert known["calls"] >= 3
        assert known["last_beat_at"] is not None


def shows_that_its_token_is_another(team: Team) -> None:
    other = make_team(
        team.cluster,
        team.client,
        team.directory / "other",
        app=f"{team.app}-other",
        token="not-its-token",
        addresses=[team.one.url],
    )
    if team.client.manner.checks_token:
        wait_until(
            lambda: (other.address(team.one) or {}).get("last_error"),
            timeout_seconds=20,
            what="the error",
        )
        error = other.address(team.one)["last_error"].lower()
        assert "token" in error
        assert other.executor()["live_nodes"] == 0
    else:
        other.wait_for_nodes(1)
    team.api.delete(f"/executors/{other.executor_id}")


def is_killed_and_its_runs_are_lost_or_tried_elsewhere(team: Team) -> None:
    runs = []
    if team.client.manner.side_by_side:
        runs.append(team.run("slow", "60", on=team.one, retry_on_lost=False))
    runs.append(
        team.run("slow", "6", retries=1, routing="failover", nodes=[name_of(team.one), "*"])
    )
    for run in runs:
        team.wait(run, "running")
        team.wait_for_log(run, "line 1")
    *once, again = runs
    began = time.monotonic()
    team.one.kill()
    for run in once:
        assert team.wait(run)["state"] == "lost"
        assert time.monotonic() - began < LOST_SECONDS
        assert any("line 1" in line for line in team.log(run))
    ended = team.wait(again, timeout_seconds=30)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2), ended
    assert ended["node_name"] == name_of(team.two)
    assert [each["state"] for each in ended["attempts"]] == ["lost"]
    assert any("line 1" in line for line in team.log(again, attempt=1))
    assert team.events(again, team.one) == ["start"]
    assert team.events(again, team.two) == ["start", "end"]


def is_told_to_end_while_it_runs_something(team: Team) -> None:
    """By SIGTERM. Nothing is left open, whatever the client makes of the run."""
    run = team.run("slow", "4", on=team.two, retry_on_lost=False)
    team.wait(run, "running")
    assert team.two.stop() == team.client.manner.exit_code
    assert team.wait(run)["state"] == team.client.manner.stopped
    team.wait_for_nodes(0)
    assert team.address(team.two)["removed_at"] is not None


STORIES: tuple[Story, ...] = (
    registers_and_is_shown,
    succeeds_with_its_message_and_its_log,
    fails_with_its_message,
    shows_lines_while_it_runs_and_all_of_them_afterwards,
    refuses_a_handler_that_it_does_not_have,
    runs_shards_on_both_nodes,
    is_stopped_at_its_timeout,
    has_one_of_two_runs_cancelled,
    runs_on_the_node_that_somebody_chose,
    runs_scripts_as_glue,
    gets_nothing_while_it_is_cordoned_or_drained,
    shows_its_dialect,
    shows_that_its_token_is_another,
    is_killed_and_its_runs_are_lost_or_tried_elsewhere,
    is_told_to_end_while_it_runs_something,
)

# The library in Java 3.2 speaks as 2.4 does; by day `test_clients.py` has it.
BY_DAY = [client for client in CLIENTS if client != JAVA_3_2]

Results = Mapping[tuple[Client, Story], Future[str]]


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Results]:
    """What became of the stories, of clients that can be started here and were asked for."""
    directory = tmp_path_factory.mktemp("bridge")
    asked = {
        item.callspec.params["client"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    }
    clients = [each for each in CLIENTS if each in asked and each.missing() is None]
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
            patch.delenv(name)
        with Cluster(directory, f"sqlite:///{directory}/tickwheel.db") as cluster:
            cluster.start_admin()
            cluster.command("user", "grant", "admin", "--role", "admin", "--scripts")
            cluster.api()  # makes the token before threads ask for it
            teams = Teams(cluster, directory)
            try:
                yield teams.play(clients, STORIES, processes=("one", "two"))
            finally:
                teams.close()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.parametrize("client", CLIENTS if IS_NIGHT else BY_DAY, ids=str)
def test_a_client(client: Client, story: Story, results: Results) -> None:
    if reason := client.missing():
        pytest.skip(reason)
    if problem := results[client, story].result(STORY_SECONDS):
        pytest.fail(problem, pytrace=False)
