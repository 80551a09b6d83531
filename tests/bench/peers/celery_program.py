"""Celery as a peer: a worker, beat for what recurs, an ETA for what does not; Redis as broker."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from importlib.metadata import version

from tests.bench.peers.contract import Order, Output, wait_for_the_end
from tests.support.processes import ManagedProcess

APP = "tests.bench.peers.celery_app"
PROCESSES = 4  # of the worker's pool, for two cores: each waits for the database now and then


def main() -> None:
    order = Order.from_environment()
    output = Output(order.output)
    if order.broker_url is None:
        output.cannot("no Redis server for a broker")
        return
    if order.database_url.startswith("sqlite"):
        output.cannot("the processes of its pool lock each other out of one SQLite file")
        return
    celery = [sys.executable, "-m", "celery", "-A", APP]
    worker = [*celery, "worker", "--concurrency", str(PROCESSES), "--loglevel", "INFO"]
    beat_file = str(order.directory / "beat")
    beat = [*celery, "beat", "--schedule", beat_file, "--loglevel", "WARNING"]
    with ManagedProcess(worker, order.directory / "worker.log") as process:
        process.wait_for_line(r"\bready\b", timeout_seconds=60)
        if order.period_ms is None:
            _send(order)
            done = "worker (prefork, 4 processes, acks_late), tasks with an ETA"
        else:
            beating = ManagedProcess(beat, order.directory / "beat.log")
            done = "worker (prefork, 4 processes, acks_late), beat with intervals"
        output.ready(f"Celery {version('celery')}, broker Redis, results in the database, {done}")
        wait_for_the_end()
        if order.period_ms is not None:
            beating.kill()
        process.kill()  # it would finish its tasks first; the bench ends the rest of its pool


def _send(order: Order) -> None:
    """Give every task to the worker, which keeps it until its time has come."""
    from tests.bench.peers.celery_app import app, handle  # reads the environment

    eta = datetime.fromtimestamp(order.due_at / 1000, UTC)
    with app.connection_for_write() as connection:
        for schedule in range(order.schedules):
            handle.apply_async((schedule, order.due_at), eta=eta, connection=connection)


if __name__ == "__main__":
    os.environ.setdefault("C_FORCE_ROOT", "1")  # it warns of root; here everything is a throwaway
    main()
