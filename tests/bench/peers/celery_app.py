"""The Celery application that worker, beat and sender of celery_program.py share."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from celery import Celery  # type: ignore[import-not-found]
from celery.schedules import schedule as every  # type: ignore[import-not-found]
from celery.signals import before_task_publish  # type: ignore[import-not-found]

from tests.bench.peers.contract import Order, Output

_order = Order.from_environment()

app = Celery("peer", broker=_order.broker_url, backend=f"db+{_order.database_url}")
app.conf.update(
    task_acks_late=True,  # acknowledged when it has run: a worker that dies loses nothing
    worker_prefetch_multiplier=64,  # what its guide advises for very many short tasks
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@cache
def _output() -> Output:
    return Output(_order.output)


@app.task(name="peer.handle")  # type: ignore[untyped-decorator]
def handle(schedule: int, nominal_at: int | None = None) -> None:
    """The task that does nothing."""
    _output().started(schedule, nominal_at)


if _order.period_ms is not None:
    # relative: due at full seconds, as `due_at` is one; else each interval begins when the last
    # message was sent, and there is no instant that it could be late for.
    app.conf.beat_schedule = {
        str(number): {
            "task": "peer.handle",
            "schedule": every(_order.period_ms / 1000, relative=True),
            "args": (number,),
        }
        for number in range(_order.schedules)
    }

    @before_task_publish.connect  # type: ignore[untyped-decorator]
    def _tell_the_instant(body: Any, **_: Any) -> None:
        """Only the sender knows it: beat sends a moment after the full second that was due."""
        now = time.time_ns() // 1_000_000
        body[1]["nominal_at"] = now - now % (_order.period_ms or 1)
