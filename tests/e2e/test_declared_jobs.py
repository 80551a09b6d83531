"""Jobs declared in code, from a real service's decorator to the job that runs, over deployments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, NodeProcess
from tests.support.polling import wait_until

PROGRAM = Path(__file__).with_name("declaring_program.py")


@pytest.fixture
def cluster(sqlite_url: str, tmp_path: Path) -> Iterator[Cluster]:
    """On SQLite: what depends on the database is tested with each of them elsewhere."""
    with Cluster(tmp_path, sqlite_url) as cluster:
        cluster.start_admin()
        cluster.add_executor()
        yield cluster


def start(cluster: Cluster, version: str, name: str) -> NodeProcess:
    return cluster.start_node(name, program=(str(PROGRAM), "--version", version))


def declared(cluster: Cluster) -> dict[str, Any]:
    path = f"/executors/{cluster.executor_id}/declared-jobs"
    return {item["name"]: item for item in cluster.api().get(path)["items"]}


def states(cluster: Cluster) -> dict[str, str]:
    return {name: item["state"] for name, item in declared(cluster).items()}


def test_a_service_brings_its_jobs_along(cluster: Cluster) -> None:
    old = start(cluster, "v1", "old-1")
    old.process.wait_for_line("created 'nightly', 'tick'")
    job_id = declared(cluster)["nightly"]["job_id"]
    api = cluster.api()
    job = api.get(f"/jobs/{job_id}")
    assert (job["managed"], job["config"]["retries"]) == (True, 2)
    [trigger] = job["config"]["triggers"]
    assert (trigger["dialect"], trigger["timezone"]) == ("quartz", "Asia/Shanghai")
    assert job["schema"]["properties"]["month"]["type"] == "string"
    done = cluster.wait_for_run(cluster.run_job(job_id, {"month": "2026-01"}), "succeeded")
    assert json.loads(json.dumps(done["result"])) == "2026-01"
    refused = api.ask("POST", f"/jobs/{job_id}/run", {"parameters": {"month": 5}})
    assert (refused.status, refused.code) == (422, "invalid_input")
    assert [each["field"] for each in refused.body["error"]["problems"]] == ["parameters.month"]
    refused = api.ask("PUT", f"/jobs/{job_id}", job["config"] | {"revision": 1, "owner": "ada"})
    assert (refused.status, refused.code) == (409, "job.managed_by_code")

    # The next version, beside the old one at first.
    new = start(cluster, "v2", "new-1")
    new.process.wait_for_line("the declared job 'broken' cannot be used: triggers")
    new.process.wait_for_line("changed 'nightly'")
    job = api.get(f"/jobs/{job_id}")
    assert (job["revision"], job["config"]["parameters"]) == (2, {"copies": 2})
    assert states(cluster) == {"broken": "invalid", "nightly": "applied", "tick": "applied"}
    assert declared(cluster)["tick"]["declared_now"]
    old.process.stop()
    wait_until(lambda: not declared(cluster)["tick"]["declared_now"], what="tick is undeclared")
    tick = api.get(f"/jobs/{declared(cluster)['tick']['job_id']}")
    assert (tick["managed"], len(tick["triggers"])) == (True, 1)

    # An admin that starts again changes nothing: no process is new.
    cluster.admins[0].process.stop()
    cluster.start_admin("admin-2", port=cluster.admins[0].port)
    wait_until(lambda: cluster.api().get(f"/executors/{cluster.executor_id}")["live_nodes"] == 1)
    assert cluster.api().get(f"/jobs/{job_id}")["revision"] == 2


def test_a_new_name_is_a_persons_decision(cluster: Cluster) -> None:
    first = start(cluster, "v2", "node-1")
    first.process.wait_for_line("created 'nightly'")
    job_id = declared(cluster)["nightly"]["job_id"]
    second = start(cluster, "renamed", "node-2")
    second.process.wait_for_line("'every night' .probably the new name of 'nightly'")
    item = declared(cluster)["every night"]
    assert (item["state"], item["renamed_from"], item["job_id"]) == ("waiting", "nightly", job_id)
    api = cluster.api()
    kinds = [each["kind"] for each in api.get("/attention")["items"]]
    assert kinds.count("declared_waiting") == 1  # a busy machine may need some, too
    path = f"/executors/{cluster.executor_id}/declared-jobs/every%20night/accept"
    assert api.post(path, {"rename_from": "nightly"}) == {"job_id": job_id}
    job = api.get(f"/jobs/{job_id}")
    assert (job["config"]["name"], job["revision"], job["managed"]) == ("every night", 2, True)
    assert "nightly" not in declared(cluster)
