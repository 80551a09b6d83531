"""A search: after runs that give away whatever they can, their secrets are found nowhere."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.e2e.cluster import Cluster
from tests.support.polling import wait_until

PROGRAM = ("-m", "tests.e2e.secret_program")
MARK = "kolibri"  # in every line of every value, whatever it is escaped by; no word of the product
VALUES = {
    "PLAIN": "kolibri7c1f9e",
    "QUOTED": "kolibri\"7c'1f/9e é$&%\\",
    "LINES": "kolibri-of-line-1\nkolibri-of-line-2\n",
}
PARAMETERS = {"values": [f"${{secret.{name}}}" for name in VALUES]}
ENDS = {
    "returns": "succeeded",
    "keeps": "succeeded",
    "raises": "failed",
    "fails": "failed",
    "skips": "skipped",
    "retries": "queued",
}


def test_no_secret_is_found_anywhere(sqlite_url: str, tmp_path: Path) -> None:
    told: list[str] = []  # everything that the API answers
    with Cluster(tmp_path, sqlite_url, forks_admins=False) as cluster:
        admin = cluster.start_admin(environment={"TICKWHEEL_LOG_LEVEL": "debug"})
        cluster.add_executor()
        api, of_executor = cluster.api(), f"/executors/{cluster.executor_id}"

        def ask(method: str, path: str, body: Any = None) -> Any:
            answer = api.ask(method, path, body)
            told.append(json.dumps(answer.body, ensure_ascii=False))
            return answer

        for name, value in VALUES.items():
            assert ask("PUT", f"{of_executor}/secrets/{name}", {"value": value}).status == 204
            # What is refused is not repeated either.
            wrong: Any
            for wrong in ({"value": f"{value}\0"}, {"value": [value]}, [value]):
                assert ask("PUT", f"{of_executor}/secrets/X", wrong).status == 422, wrong
        node = cluster.start_node("node-1", program=PROGRAM)

        runs: dict[int, tuple[str, ...]] = {}
        for handler in ("tells", "tells_in_process"):
            for way, state in ENDS.items():
                job = cluster.add_job(
                    f"{handler} {way}", handler, parameters=PARAMETERS | {"way": way},
                    blocking="serial",
                    retries=1 if way == "retries" else 0,
                )  # fmt: skip
                runs[cluster.run_job(job)] = (state,)
        refused = cluster.add_job("digits", "takes_digits", parameters=PARAMETERS)
        silent = cluster.run_job(refused)
        runs[silent] = ("failed",)
        command = {
            "argv": ["/bin/sh", "-xc", 'cat; printf "%s\\n" "$KEY" >&2; exit 3'],
            "stdin": "${secret.LINES}${secret.PLAIN}",
            "environment": {"KEY": "${secret.QUOTED}"},
        }
        runs[cluster.run_job(cluster.add_job("command", "command", parameters=command))] = (
            "failed",
        )
        waiting = cluster.run_job(cluster.add_job("waits", "waits", parameters=PARAMETERS))
        cluster.wait_for_run(waiting, "running")
        for run_id, states in runs.items():
            wait_until(
                lambda run_id=run_id, states=states: (
                    (run := api.get(f"/runs/{run_id}"))["state"] in states
                    and (run["tries"] > 0 or run["state"] != "queued")
                ),
                timeout_seconds=60,
                what=f"run {run_id} to be {states}",
            )

        # While a run has them, and while the node's processes for handlers are there.
        listed = _of_processes("cmdline")
        environments = b"".join(
            Path(f"/proc/{pid}/environ").read_bytes()
            for pid in (admin.process.pid, node.process.pid, *_children_of(node.process.pid))
        )
        assert MARK.encode() not in listed + environments
        ask("POST", f"/runs/{waiting}/cancel")
        cluster.wait_for_run(waiting, "cancelled")

        for run_id in (*runs, waiting):
            ask("GET", f"/runs/{run_id}")
            log = json.dumps(ask("GET", f"/runs/{run_id}/log").body, ensure_ascii=False)
            assert "•••" in log or run_id in (silent, waiting)
        for path in ("/jobs", "/runs", "/audit", of_executor, f"{of_executor}/secrets"):
            assert ask("GET", path).status == 200, path
        assert admin.process.stop() == 0
        assert node.process.stop() == 0
    assert MARK not in "".join(told)
    # The database with every table, its journal, all logs and the spool lie there.
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    found = {path.name for path in files if MARK.encode() in path.read_bytes()}
    assert len(files) > 3
    assert found == set()


def _of_processes(name: str) -> bytes:
    """What this file says of each process that there is."""
    told = b""
    for path in Path("/proc").glob(f"[0-9]*/{name}"):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            told += path.read_bytes()
    return told


def _children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_children_of(child)]
    return found
