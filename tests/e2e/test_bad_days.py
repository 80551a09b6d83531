"""What people see from outside when something is wrong, and that it heals by itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.support.databases import fresh_database
from tests.support.polling import wait_until
from tests.support.processes import free_port
from tests.support.servers import DatabaseServer


@pytest.fixture
def sqlite_cluster(sqlite_url: str, tmp_path: Path) -> Cluster:
    """Prepared, with no process yet."""
    return Cluster(tmp_path, sqlite_url)


def test_a_node_with_a_wrong_token_is_told_so_and_leaves_no_trace(sqlite_cluster: Cluster) -> None:
    with sqlite_cluster as cluster:
        cluster.start_admin()
        cluster.add_executor()
        node = cluster.start_node("stranger", token="twx_" + "x" * 43, wait=False)
        line = node.process.wait_for_line(r".*does not accept the executor token.*")
        assert "TICKWHEEL_TOKEN" in node.process.output()
        assert "twx_xxx" not in line[0]

        assert node.process.wait() == 78
        assert "stopping, for no admin lets this node in" in node.process.output()
        executor = cluster.api().get(f"/executors/{cluster.executor_id}")
        assert executor["nodes"] == []
        assert executor["live_nodes"] == 0
        assert "Traceback" not in node.process.output()


def test_a_node_waits_for_an_admin_that_is_not_there_yet(sqlite_cluster: Cluster) -> None:
    with sqlite_cluster as cluster:
        first = cluster.start_admin()
        cluster.add_executor()
        job = cluster.add_job("later", "work")
        assert first.process.stop() == 0

        node = cluster.start_node("early", admins=first.url, wait=False)
        node.process.wait_for_line("trying again until it answers")
        cluster.start_admin(port=first.port)
        node.process.wait_for_line("connected to admin", timeout_seconds=30)
        run = cluster.wait_for_run(cluster.run_job(job), "succeeded")
        assert run["node_name"] == "early"


def test_requests_that_cannot_be_met_say_why(sqlite_cluster: Cluster) -> None:
    with sqlite_cluster as cluster:
        admin = cluster.start_admin()
        cluster.add_executor()
        api = cluster.api()
        # Without a live node nobody can say that there is no such handler.
        job = cluster.add_job("unknown", "no-such-handler")
        unknown = cluster.run_job(job)
        waiting_for = lambda: api.get(f"/runs/{unknown}")["waiting_for"]  # noqa: E731
        wait_until(lambda: waiting_for() == "no_live_node", what="the run to miss a node")
        cluster.start_node("node-1")
        wait_until(lambda: waiting_for() == "no_handler", what="the run to miss its handler")
        api.post(f"/runs/{unknown}/cancel")
        assert cluster.wait_for_run(unknown, "cancelled")["attempt"] == 0
        misspelt = {"executor_id": cluster.executor_id, "name": "misspelt", "handler": "wrok"}
        refused = api.ask("POST", "/jobs", misspelt)
        assert (refused.status, refused.code) == (422, "invalid_input")
        assert refused.body["error"]["problems"][0]["code"] == "handler.unknown"

        job = cluster.add_job("short-lived", "work")
        run = cluster.wait_for_run(cluster.run_job(job), "succeeded")
        api.delete(f"/jobs/{job}")
        refused = api.ask("POST", f"/runs/{run['id']}/retry")
        assert (refused.status, refused.code) == (409, "job.deleted")
        refused = api.ask("POST", f"/jobs/{job}/run", {})
        assert (refused.status, refused.code) == (404, "not_found")
        assert api.get(f"/runs/{run['id']}")["result"] == run["result"]  # the run stays

        refused = Api(admin.url, "twt_" + "x" * 43).ask("GET", "/jobs")
        assert (refused.status, refused.code) == (401, "login.required")


def test_an_admin_says_that_its_database_is_away_and_heals(
    own_server: DatabaseServer, tmp_path: Path
) -> None:
    with fresh_database(own_server) as url, Cluster(tmp_path, url) as cluster:
        admin = cluster.start_admin()
        cluster.add_executor()
        cluster.start_node("node-1")
        api = cluster.api()
        job = cluster.add_job("steady", "work", parameters={"seconds": 4})
        held = cluster.wait_for_run(cluster.run_job(job), "running")

        own_server.crash()
        try:
            answer = api.ask("GET", "/jobs")
            assert (answer.status, answer.code) == (503, "database.unavailable")
            answer = api.ask("POST", f"/jobs/{job}/run", {})
            assert (answer.status, answer.code) == (503, "database.unavailable")
            admin.process.wait_for_http(f"{admin.url}/healthz", status=503, timeout_seconds=30)
            time.sleep(2)  # the handler ends meanwhile: its result has nowhere to go
        finally:
            own_server.start()

        admin.process.wait_for_http(f"{admin.url}/healthz", timeout_seconds=30)
        arrived = cluster.wait_for_run(held["id"], "succeeded", timeout_seconds=30)
        assert (arrived["attempt"], arrived["tries"]) == (1, 1)
        cluster.wait_for_run(cluster.run_job(job), "succeeded")
        assert "Traceback" not in admin.process.output()


def test_an_admin_that_never_answers_is_not_in_the_way(sqlite_cluster: Cluster) -> None:
    with sqlite_cluster as cluster:
        admin = cluster.start_admin()
        cluster.add_executor()
        job = cluster.add_job("anyway", "work")
        nowhere = f"http://127.0.0.1:{free_port()}"
        node = cluster.start_node("node-1", admins=f"{nowhere},{admin.url}")
        cluster.wait_for_run(cluster.run_job(job), "succeeded")
        assert "trying again until it answers" in node.process.output()
        assert node.process.stop() == 0


@pytest.mark.parametrize("database_url", ["mariadb"], indirect=True)
def test_an_admin_that_starts_later_has_nodes_and_can_take_over(cluster: Cluster) -> None:
    cluster.start_node("node-1")
    job = cluster.add_job("steady", "work")
    later = cluster.start_admin("admin-2")
    api = cluster.api(later)
    (node,) = api.get(f"/executors/{cluster.executor_id}")["nodes"]

    def heard_by() -> list[str]:
        return sorted(each["admin_name"] for each in api.get(f"/nodes/{node['id']}")["heard_by"])

    wait_until(lambda: heard_by() == ["admin-1", "admin-2"], what="both admins to hear the node")
    assert cluster.admins[0].process.stop() == 0
    run = cluster.wait_for_run(cluster.run_job(job), "succeeded")
    assert run["node_name"] == "node-1"
