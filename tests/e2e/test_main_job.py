"""The main job on each database: fire → run → log → result, cancel and retry, all from outside."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.e2e.cluster import Cluster
from tests.support.polling import wait_until


def log_of(cluster: Cluster, run_id: int) -> list[Any]:
    """The lines of an ended run, once all have arrived."""
    api = cluster.api()

    def complete() -> Any:
        log = api.get(f"/runs/{run_id}/log")
        return log if log["ended"] and not log["more"] else None

    return list(wait_until(complete, what="the whole log")["lines"])


def test_fire_run_log_result_cancel_and_retry(cluster: Cluster) -> None:
    api = cluster.api()
    cluster.start_node("node-1")

    # A trigger fires by itself, on its instants, and the runs' results and logs are stored.
    rate = {"kind": "fixed_rate", "every_seconds": 0.5}
    cron = {"kind": "cron", "expression": "* * * * *", "timezone": "Europe/Berlin"}
    ticking = cluster.add_job("ticking", "report", parameters={"count": 3}, triggers=[rate, cron])

    def fired() -> Any:
        runs = api.get(f"/runs?job_id={ticking}&state=succeeded")["items"]
        return runs if len([run for run in runs if run["origin"] == "schedule"]) >= 3 else None

    runs = wait_until(fired, timeout_seconds=15, what="three runs of the trigger")
    api.post(f"/jobs/{ticking}/pause")
    scheduled = [run["scheduled_at"] for run in runs]
    assert len(set(scheduled)) == len(scheduled)
    one = api.get(f"/runs/{runs[0]['id']}")
    assert one["result"] == {"lines": 3, "note": None}
    started, scheduled = (datetime.fromisoformat(one[at]) for at in ("started_at", "scheduled_at"))
    assert started >= scheduled
    assert (one["attempt"], one["tries"], one["node_name"]) == (1, 1, "node-1")
    lines = log_of(cluster, one["id"])
    assert [line["text"] for line in lines] == [
        "line 1 of 3 – 第 1 行", "line 2 of 3 – 第 2 行", "line 3 of 3 – 第 3 行",
        "all lines written",
    ]  # fmt: skip
    assert [line["seq"] for line in lines] == [1, 2, 3, 4]
    assert lines[3]["level"] == "warning"
    next_fires = api.get(f"/jobs/{ticking}")
    assert {trigger["state"] for trigger in next_fires["triggers"]} == {"active"}

    # By hand with other parameters; the same request twice is one run.
    asked = {"parameters": {"count": 1, "note": "汉字 \N{SNOWMAN}"}}
    first = api.post(f"/jobs/{ticking}/run", asked, Idempotency_Key="order-1")
    again = api.post(f"/jobs/{ticking}/run", asked, Idempotency_Key="order-1")
    assert first == again
    by_hand = cluster.wait_for_run(first["run_id"], "succeeded")
    assert by_hand["result"] == {"lines": 1, "note": "汉字 \N{SNOWMAN}"}
    assert by_hand["origin"] == "api"
    assert len(log_of(cluster, by_hand["id"])) == 2

    # A failure is retried by itself, and its attempts are kept.
    flaky = cluster.add_job("flaky", "fail_once", retries=2, retry_delay_seconds=0.2)
    retried = cluster.wait_for_run(cluster.run_job(flaky), "succeeded")
    assert (retried["tries"], retried["result"]) == (2, {"try": 2})
    assert [attempt["state"] for attempt in retried["attempts"]] == ["failed"]
    assert "the partner does not answer" in retried["attempts"][0]["message"]

    # What failed for good is retried by a person as a new run.
    failing = cluster.add_job("failing", "fail", parameters={"month": "13"})
    failed = cluster.wait_for_run(cluster.run_job(failing), "failed")
    assert failed["message"] == "ValueError: no such month: 13"
    assert any("Traceback" in line["text"] for line in log_of(cluster, failed["id"]))
    retry = api.post(f"/runs/{failed['id']}/retry")["run_id"]
    assert cluster.wait_for_run(retry, "failed")["retry_of"] == failed["id"]

    # A running one is cancelled, and its node ends it.
    endless = cluster.add_job("endless", "wait_for_cancel")
    running = cluster.wait_for_run(cluster.run_job(endless), "running")
    refused = api.ask("POST", f"/runs/{running['id']}/retry")
    assert (refused.status, refused.code) == (409, "run.not_ended")
    api.post(f"/runs/{running['id']}/cancel")
    cluster.wait_for_run(running["id"], "cancelled")
    refused = api.ask("POST", f"/runs/{running['id']}/cancel")
    assert (refused.status, refused.code) == (409, "run.ended")

    # A plain function runs in a thread.
    threaded = cluster.add_job("threaded", "sync_work")
    assert cluster.wait_for_run(cluster.run_job(threaded), "succeeded")["result"] == {
        "thread": True
    }
    wait_until(lambda: api.get("/executors")["items"][0]["in_use"] == 0, what="all slots free")

    for each in (*cluster.nodes, *cluster.admins):
        assert each.process.stop() == 0
        assert "Traceback" not in each.process.output()
        assert '"level": "error"' not in each.process.output()
