"""A program with the SDK's client against real admins and nodes, and what runs hand on."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.support.polling import wait_until
from tests.support.processes import free_port
from tickwheel_executor import (
    Client,
    ClientError,
    NotFoundError,
    RunNotSucceededError,
    TokenRefusedError,
)


@pytest.fixture
def sqlite_cluster(sqlite_url: str, tmp_path: Path) -> Cluster:
    """Prepared, with no process yet."""
    return Cluster(tmp_path, sqlite_url)


def client_of(cluster: Cluster) -> Client:
    """A client that knows an admin which is not there, beside the one that is."""
    token = cluster.command("token", "create", "admin", "client")
    return Client([f"http://127.0.0.1:{free_port()}", cluster.admins[0].url], token)


def test_a_program_runs_jobs_and_waits_for_them(sqlite_cluster: Cluster) -> None:
    with sqlite_cluster as cluster:
        cluster.start_admin()
        cluster.add_executor()
        cluster.start_node("node-1")
        cluster.add_job("count", "count", blocking="serial")
        report = cluster.add_job("report", "report", parameters={"count": 2})
        cluster.add_job("fail", "fail")
        client = client_of(cluster)

        run_id = client.run_job("shop/count", idempotency_key="order-1").result()
        assert client.wait(run_id, timeout=30).result().result == 1
        assert client.run_job("shop/count", idempotency_key="order-1").result() == run_id
        second = client.run_job("shop/count").result()
        assert client.wait(second, timeout=30).result().result == 2
        job_id = client.run(second).result().job_id
        state = cluster.api().get(f"/jobs/{job_id}/state")
        assert (state["state"], state["run_id"]) == ({"runs": 2}, second)

        run_id = client.run_job(report, {"note": "月报"}, node="node-1", delay_seconds=0.2).result()
        assert client.wait(run_id, timeout=30).result().result == {"lines": 2, "note": "月报"}
        told = [line.text for line in client.log(run_id).result()]
        assert told == ["line 1 of 2 – 第 1 行", "line 2 of 2 – 第 2 行", "all lines written"]

        failing = client.run_job("shop/fail", {"month": 13}).result()
        with pytest.raises(RunNotSucceededError, match="is failed: ValueError: no such month: 13"):
            client.wait(failing, timeout=30).result()
        with pytest.raises(NotFoundError):
            client.run_job("shop/no-such-job").result()
        with pytest.raises(ClientError) as refused:
            client.run_job(report, node="nowhere").result()
        assert refused.value.status == 422
        with pytest.raises(TokenRefusedError):
            Client([cluster.admins[0].url], "twt_" + "x" * 43).run(run_id).result()

        assert log_of_imported_line(cluster, client) == [
            "2 of the shop in eu",
            "arguments: --day %F",
            "first",
            "second",
        ]


CRONTAB = """\
# /etc/crontab: system-wide crontab
SHELL=/bin/bash
PATH={directory}/bin:/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin
MAILTO=root
HOME={directory}
REGION=eu

# Example of job definition:
# m h dom mon dow user  command
17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly
25 6\t* * *\troot\ttest -x /usr/sbin/anacron || {{ cd / && run-parts --report /etc/cron.daily; }}
# Totals of the day
5 0\t* * *\twww-data\tPARTS=(a b); shop-totals "${{#PARTS[@]}}" --day \\%F%first%second
"""


def log_of_imported_line(cluster: Cluster, client: Client) -> list[str]:
    """What the last line writes when an agent runs it, which allows no variable of its own."""
    directory = cluster.directory / "machine"
    (directory / "bin").mkdir(parents=True)
    program = directory / "bin" / "shop-totals"
    program.write_text(
        '#!/bin/sh\necho "$1 of the $(cat shop) in $REGION"; shift\necho "arguments: $*"; cat\n'
    )
    program.chmod(0o755)
    (directory / "shop").write_text("shop\n")
    crontab = directory / "crontab"
    crontab.write_text(CRONTAB.format(directory=directory))
    allowed = cluster.api().ask(
        "PUT", f"/executors/{cluster.executor_id}/scripts", {"allowed": True}
    )
    assert allowed.status == 204
    cluster.command("import", "crontab", str(crontab), "--timezone", "UTC", "--apply")
    cluster.start_agent(f'[children]\ndirectory = "{directory}"\n[script]\nlanguages = ["shell"]\n')
    (job,) = cluster.api().get("/jobs?text=shop-totals")["items"]
    run_id = client.run_job(job["id"]).result()
    assert client.wait(run_id, timeout=60).result().state == "succeeded"
    return [line.text for line in client.log(run_id).result()]


def test_after_kill_9_the_next_try_goes_on_from_the_checkpoint(sqlite_cluster: Cluster) -> None:
    with sqlite_cluster as cluster:
        cluster.start_admin()
        cluster.add_executor()
        first = cluster.start_node("node-1")
        cluster.add_job("steps", "steps", retries=1, retry_delay_seconds=0)
        client = client_of(cluster)
        run_id = client.run_job("shop/steps", {"count": 5, "hang": True}).result()
        wait_until(lambda: saved(cluster, run_id) == 5, what="the last checkpoint to arrive")

        first.process.kill()
        cluster.start_node("node-2")
        run = client.wait(run_id, timeout=60).result()

        assert (run.result, run.data["node_name"], run.data["tries"]) == ({"first": 5}, "node-2", 2)


def saved(cluster: Cluster, run_id: int) -> int | None:
    """The checkpoint that the database has of a run."""
    path = cluster.database_url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as conn:
        row = conn.execute("SELECT data FROM run_checkpoint WHERE run_id = ?", (run_id,)).fetchone()
    return None if row is None else int(json.loads(row[0]))
