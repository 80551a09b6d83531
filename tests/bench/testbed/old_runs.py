"""Runs that ended long ago, as many as a ledger keeps, written while their bed has no admin."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.bench.seed.writer import NULL, Writer
from tests.bench.testbed.bed import Bed
from tests.support.polling import wait_until
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import take_block

JOBS = 1_000  # that the runs belong to; each has one trigger
FIRST_JOB = 2**40  # far from the ids that the admin gives
DAYS = 20  # that they are spread over; less than what an admin keeps
HOUR_MS = 3_600_000
COLUMNS = (
    "id", "executor_id", "job_id", "job_revision", "trigger_id", "origin", "scheduled_at",
    "shard_index", "shard_total", "priority", "created_at", "state", "due_at", "attempt", "tries",
    "claim_token", "dispatched_at", "started_at", "ended_at", "result", "log_lines",
)  # fmt: skip


def add_old_runs(bed: Bed, *, count: int) -> None:
    """Write so many more; returns when the admin is back, its nodes too, and all is calm."""
    if not count:
        return
    stopped = bed.cluster.admins.pop()
    stopped.process.stop()
    first = bed.database.run_sync(take_block, "run", count)
    writer = Writer(bed.cluster.database_url)
    writer.drop_indexes(tables.run)
    writer.write_all(tables.run, COLUMNS, _lines(bed.cluster.executor_id, first, count))
    writer.make_indexes(tables.run)
    writer.analyze()
    writer.engine.dispose()
    before = [node.process.output().count("connected to admin") for node in bed.cluster.nodes]
    bed.cluster.start_admin(stopped.name, port=stopped.port)
    wait_until(
        lambda: all(
            node.process.output().count("connected to admin") > so_far
            for node, so_far in zip(bed.cluster.nodes, before, strict=True)
        ),
        timeout_seconds=60,
        what="the nodes are connected again",
    )
    bed.wait_until_calm(timeout_seconds=900)  # it counts the hours that it finds uncounted


def _lines(executor_id: int, first: int, count: int) -> Iterator[str]:
    until = round(time.time() * 1000) - HOUR_MS
    begin = until - DAYS * 24 * HOUR_MS
    span = until - begin
    for number in range(count):
        job_id = FIRST_JOB + number % JOBS
        trigger_id = job_id + first  # others in each call: no trigger fires twice at an instant
        at = begin + span * number // count
        yield (
            f"{first + number}\t{executor_id}\t{job_id}\t1\t{trigger_id}\tschedule\t{at}\t0\t1\t5\t"
            f"{at - 1500}\tsucceeded\t{at}\t1\t1\t{first + number:032x}\t{at + 2}\t{at + 9}\t"
            f"{at + 60}\t{NULL}\t0"
        )
