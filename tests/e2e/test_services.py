"""The examples for FastAPI, Flask, Django and gunicorn, each as a real process."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess, free_port
from tickwheel_executor.testing import FakeAdmin

EXAMPLES = Path(__file__).parents[2] / "executor_sdk" / "examples"

Run = Callable[..., ManagedProcess]


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    with FakeAdmin("shop", within_seconds=60.0) as admin:
        yield admin


@pytest.fixture
def run(admin: FakeAdmin, tmp_path: Path) -> Iterator[Run]:
    running: list[ManagedProcess] = []

    def run(*command: object, directory: Path = EXAMPLES, **environment: object) -> ManagedProcess:
        settings = {
            "TICKWHEEL_ADMINS": admin.url,
            "TICKWHEEL_TOKEN": admin.token,
            "XDG_STATE_HOME": str(tmp_path),
            "SHOP_DATABASE": str(tmp_path / "shop.db"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        log = tmp_path / f"{len(running)}.log"
        process = ManagedProcess(
            [sys.executable, *map(str, command)],
            log,
            environment=settings | {name: str(value) for name, value in environment.items()},
            directory=directory,
        )
        running.append(process)
        return process.__enter__()

    yield run
    for process in running:
        process.__exit__(None, None, None)


def get(port: int, path: str = "/") -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
        return json.load(response)


def name_of(pid: int) -> str:
    return f"{socket.gethostname()}-{pid}"


def booted(gunicorn: ManagedProcess, count: int) -> list[int]:
    """The pids of the first `count` workers, once there are as many."""

    def pids() -> list[int]:
        found = re.findall(r"Booting worker with pid: (\d+)", gunicorn.output())
        return [int(pid) for pid in found[:count]] if len(found) >= count else []

    return wait_until(pids, timeout_seconds=20, what=f"{count} workers")


def test_fastapi_runs_jobs_on_its_own_loop(admin: FakeAdmin, run: Run) -> None:
    port = free_port()
    service = run("-m", "uvicorn", "fastapi_app:app", "--port", port)
    service.wait_for_http(f"http://127.0.0.1:{port}/prices", timeout_seconds=20)
    end = admin.run("raise-prices", {"percent": 50}).result()
    assert end.result == {"tea": 6.0, "coffee": 9.0} == get(port, "/prices")
    assert end.lines() == ["tea: 6.00", "coffee: 9.00"]
    service.send_signal(signal.SIGTERM)
    admin.no_node().result()
    service.wait()
    assert "Application shutdown complete" in service.output()
    assert "Traceback" not in service.output()


def test_flask_runs_jobs_beside_its_requests(admin: FakeAdmin, run: Run) -> None:
    port = free_port()
    service = run("flask_app.py", PORT=port)
    service.wait_for_http(f"http://127.0.0.1:{port}/", timeout_seconds=20)
    assert get(port) == {"process": service.pid}
    assert admin.run("count-stock").result().result == {"shelves": 3, "process": service.pid}
    # What it logs by itself is not swallowed by ours.
    service.wait_for_line(r"Running on http://127\.0\.0\.1")
    service.wait_for_line(r"GET / HTTP")
    counting = admin.begin("count-stock", {"shelves": 4}).result()
    service.send_signal(signal.SIGINT)
    assert counting.end().result().succeeded  # Ctrl-C lets it finish
    admin.no_node().result()
    service.wait()


@pytest.mark.parametrize("preload", [[], ["--preload"]], ids=["loaded by workers", "preloaded"])
def test_gunicorn_has_one_node_in_each_worker(
    admin: FakeAdmin, run: Run, preload: Sequence[str]
) -> None:
    port = free_port()
    service = run("-m", "gunicorn", "-b", f"127.0.0.1:{port}", *preload, "flask_app:app")
    pids = booted(service, 2)
    nodes = [admin.node(name_of(pid)).result() for pid in pids]
    assert nodes[0].key != nodes[1].key
    for pid in pids:
        end = admin.run("count-stock", node=name_of(pid)).result()
        assert end.result == {"shelves": 3, "process": pid}
    assert get(port)["process"] in pids

    # A worker that dies is replaced, and so is its node.
    os.kill(pids[0], signal.SIGKILL)
    (*_, third) = booted(service, 3)
    assert admin.node(name_of(third)).result().key not in [node.key for node in nodes]

    counting = admin.begin("count-stock", {"shelves": 4}, node=name_of(third)).result()
    assert service.stop() == 0
    assert counting.end().result().result == {"shelves": 4, "process": third}
    admin.no_node().result()
    assert "Traceback" not in service.output()


def test_django_runs_jobs_in_a_process_of_their_own_and_in_workers(
    admin: FakeAdmin, run: Run
) -> None:
    project = EXAMPLES / "django_app"
    assert run("manage.py", "migrate", directory=project).wait() == 0
    port = free_port()
    workers = run("-m", "gunicorn", "-b", f"127.0.0.1:{port}", "shop.wsgi", directory=project)
    jobs = run("manage.py", "run_jobs", directory=project)
    nodes = [name_of(pid) for pid in [*booted(workers, 2), jobs.pid]]
    for node in nodes:
        assert get(port) == {"visits": 1}
        end = admin.run("forget-visitors", {"days": 30}, node=node).result()
        assert (end.result, end.lines()) == ({"visitors": 1}, ["1 visitors forgotten"])
    assert jobs.stop() == 0
    assert workers.stop() == 0
    admin.no_node().result()
