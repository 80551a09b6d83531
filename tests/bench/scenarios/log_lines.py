"""Log lines stored per second: several runs on two nodes log at once, as fast as they are let.

    python -m tests.bench.scenarios.log_lines
        [--database sqlite|mariadb|postgresql] [--lines N] [--width N]

Asserts only that every line was stored.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass

import sqlalchemy as sa

from tests.bench.testbed.bed import KINDS, SERVERS, Bed, made
from tests.bench.testbed.measure import peak_mebibytes
from tickwheel_admin.store.database.tables import run_log

RUNS = 4  # at once; each node has about half of them
WIDTH = 80  # characters of a line
WARM_UP_LINES = 20_000
TIMEOUT_SECONDS = 300.0
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines:
    """One measurement."""

    lines: int
    runs: int  # that wrote them, all at once
    width: int  # characters of a line
    seconds: float  # from the asking for the runs until all lines were stored
    lines_per_second: int
    cpu_us_per_line: dict[str, float]  # of admin, both nodes and database; SQLite's is the admin's
    chunks: int  # rows that hold them
    node_mebibytes: int  # the larger node at its peak
    admin_mebibytes: int  # at its peak


def log_lines(kind: str, *, lines: int, width: int = WIDTH) -> LogLines:
    """Let runs on two nodes log so many lines in all, and wait until all are stored."""
    with made(kind) as bed:
        job_id = bed.cluster.add_job("chatter", "chatter")
        _log(bed, job_id, WARM_UP_LINES // RUNS, width)
        before = bed.cpu_seconds()
        each = lines // RUNS
        begun = time.monotonic()
        run_ids = _log(bed, job_id, each, width)
        seconds = time.monotonic() - begun
        after = bed.cpu_seconds()
        chunks = bed.database.read_sync(_chunks, run_ids)
        return LogLines(
            lines=each * RUNS,
            runs=RUNS,
            width=width,
            seconds=round(seconds, 2),
            lines_per_second=round(each * RUNS / seconds),
            cpu_us_per_line={
                name: round((after[name] - before[name]) / (each * RUNS) * 1e6, 2)
                for name in before
            },
            chunks=chunks,
            node_mebibytes=max(peak_mebibytes(node.process.pid) for node in bed.cluster.nodes),
            admin_mebibytes=max(peak_mebibytes(each.process.pid) for each in bed.cluster.admins),
        )


def _log(bed: Bed, job_id: int, each: int, width: int) -> list[int]:
    """Start the runs, and wait for the last line; their ids."""
    parameters = {"count": each, "width": width}
    run_ids = [bed.cluster.run_job(job_id, parameters) for _ in range(RUNS)]
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (stored := bed.database.read_sync(_stored, run_ids)) < each * RUNS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{stored} of {each * RUNS} lines after {TIMEOUT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    for run_id in run_ids:
        bed.cluster.wait_for_run(run_id, "succeeded", timeout_seconds=TIMEOUT_SECONDS)
    if bed.database.read_sync(_counted, run_ids) != (each * RUNS, each * RUNS):
        raise AssertionError("not every line was stored just once")
    return run_ids


def _stored(conn: sa.Connection, run_ids: list[int]) -> int:
    """Lines up to the newest chunk of each run: no more work for the database than a look."""
    lines = 0
    for run_id in run_ids:
        newest = conn.execute(
            sa.select(run_log.c.first_seq + run_log.c.line_count - 1)
            .where(run_log.c.run_id == run_id, run_log.c.attempt == 1)
            .order_by(run_log.c.first_seq.desc())
            .limit(1)
        ).scalar_one_or_none()
        lines += newest or 0
    return lines


def _counted(conn: sa.Connection, run_ids: list[int]) -> tuple[int, int]:
    """Lines in all chunks, and the last numbers of all runs together."""
    total = conn.execute(
        sa.select(sa.func.sum(run_log.c.line_count)).where(run_log.c.run_id.in_(run_ids))
    ).scalar_one()
    return int(total), _stored(conn, run_ids)


def _chunks(conn: sa.Connection, run_ids: list[int]) -> int:
    return int(
        conn.execute(
            sa.select(sa.func.count()).select_from(run_log).where(run_log.c.run_id.in_(run_ids))
        ).scalar_one()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=KINDS, action="append", help="default: all three")
    parser.add_argument("--lines", type=int, default=400_000)
    parser.add_argument("--width", type=int, default=WIDTH, help="characters of a line")
    asked = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        del os.environ[name]  # a developer's own settings are not to be measured
    for kind in asked.database or KINDS:
        if kind in SERVERS and not SERVERS[kind].is_installed():
            print(f"{kind}: not installed, not measured", flush=True)
            continue
        told = log_lines(kind, lines=asked.lines, width=asked.width)
        cpu = ", ".join(f"{name} {micros:.1f}" for name, micros in told.cpu_us_per_line.items())
        print(
            f"{kind:<11} {told.lines_per_second:,} lines/s: {told.lines:,} of {told.width}"
            f" characters by {told.runs} runs in {told.seconds} s, in {told.chunks:,} chunks;"
            f" processor µs per line: {cpu}; at most {told.node_mebibytes} MiB in a node,"
            f" {told.admin_mebibytes} in the admin",
            flush=True,
        )


if __name__ == "__main__":
    main()
