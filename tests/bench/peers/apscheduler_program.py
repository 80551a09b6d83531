"""APScheduler 3 as a peer: one scheduler process, jobs in SQLAlchemyJobStore, a pool of threads."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor  # type: ignore[import-not-found]
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore  # type: ignore[import-not-found]
from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-not-found]

from tests.bench.peers.contract import Order, Output, wait_for_the_end

THREADS = 20  # as in the example of its user guide


@cache
def _output() -> Output:
    return Output(Order.from_environment().output)


def handle(schedule: int) -> None:
    """The job: APScheduler does not tell it which instant it runs for."""
    _output().started(schedule)


def main() -> None:
    order = Order.from_environment()
    first_at = datetime.fromtimestamp(order.due_at / 1000, UTC)
    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=order.database_url)},
        executors={"default": ThreadPoolExecutor(THREADS)},
        # By its defaults it drops what is more than a second late, and all but the newest of what
        # was missed: here everything is to run, however late.
        job_defaults={"misfire_grace_time": None, "coalesce": False, "max_instances": 100},
        timezone=UTC,
    )
    trigger: dict[str, Any] = {"trigger": "date", "run_date": first_at}
    if order.period_ms is not None:
        seconds = order.period_ms / 1000
        trigger = {"trigger": "interval", "seconds": seconds, "start_date": first_at}
    scheduler.start(paused=True)  # else it would look at the store after every job that is added
    for schedule in range(order.schedules):
        # By its name, because the store keeps names; this module runs as __main__.
        scheduler.add_job(
            "tests.bench.peers.apscheduler_program:handle",
            args=(schedule,),
            id=str(schedule),
            **trigger,
        )
    scheduler.resume()
    _output().ready(
        f"APScheduler {version('apscheduler')}, BackgroundScheduler, SQLAlchemyJobStore,"
        f" ThreadPoolExecutor({THREADS})"
    )
    wait_for_the_end()


if __name__ == "__main__":
    main()
