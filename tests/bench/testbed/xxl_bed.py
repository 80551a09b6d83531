"""A bed whose nodes are executors of XXL-JOB that do nothing, called over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from tests.bench.testbed.bed import NODES, Bed, made
from tests.e2e.cluster import ROOT, NodeProcess
from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.services.secrets.cipher import new_key
from tickwheel_admin.store.database.tables import node as node_table
from tickwheel_admin.store.database.tables import xxl_log

APP_NAME = "bench"
TOKEN = "bench-token"
HANGING = "hanging"


@contextmanager
def made_xxl(kind: str, *, nodes: int = NODES) -> Iterator[Bed]:
    """Start an admin and executors that do nothing, and end them afterwards."""
    with ExitStack() as stack:
        bed = stack.enter_context(
            made(kind, nodes=0, environment={"TICKWHEEL_SECRET_KEY": new_key()})
        )
        bed.cluster.executor_id = _add_executor(bed, APP_NAME)
        for number in range(1, nodes + 1):
            bed.cluster.nodes.append(_start(bed, stack, APP_NAME, f"stub-{number}"))
        _wait_for_nodes(bed, bed.cluster.executor_id, nodes)
        yield replace(bed, noop_job=bed.cluster.add_job("does-nothing-there", "noop"))


@contextmanager
def hanging_executor(bed: Bed) -> Iterator[int]:
    """The id of an executor with one process that answers nothing but beats."""
    with ExitStack() as stack:
        executor_id = _add_executor(bed, HANGING)
        _start(bed, stack, HANGING, HANGING, "--hangs")
        _wait_for_nodes(bed, executor_id, 1)
        yield executor_id


def unread_logs(bed: Bed) -> int:
    """Logs of ended runs that are still at their executors."""
    return bed.database.read_sync(_unread)


def _add_executor(bed: Bed, app_name: str) -> int:
    executor = {
        "name": app_name,
        "protocol": "xxl_job",
        "xxl_job": {"app_name": app_name, "token": TOKEN},
    }
    return int(bed.cluster.api().post("/executors", executor)["id"])


def _start(bed: Bed, stack: ExitStack, app_name: str, name: str, *options: str) -> NodeProcess:
    command = [
        sys.executable, "-m", "tests.admin.xxl_job.stub", "--admin", bed.cluster.admins[0].url,
        "--app-name", app_name, "--token", TOKEN, "--register-seconds", "2",
        "--user-agent", "Java/17.0.2",
        *options,
    ]  # fmt: skip
    log = bed.cluster.directory / f"{name}.log"
    process = stack.enter_context(ManagedProcess(command, log, directory=ROOT))
    return NodeProcess(name=name, journal=Path(), process=process)


def _wait_for_nodes(bed: Bed, executor_id: int, count: int) -> None:
    wait_until(
        lambda: bed.database.read_sync(_nodes, executor_id) >= count,
        timeout_seconds=60,
        what=f"{count} nodes of executor {executor_id}",
    )


def _nodes(conn: sa.Connection, executor_id: int) -> int:
    found = sa.select(sa.func.count()).where(
        node_table.c.executor_id == executor_id, node_table.c.state == NodeState.LIVE.value
    )
    return int(conn.execute(found).scalar_one())


def _unread(conn: sa.Connection) -> int:
    return int(conn.execute(sa.select(sa.func.count()).select_from(xxl_log)).scalar_one())
