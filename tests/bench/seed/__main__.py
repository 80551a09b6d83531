"""Fill an empty database as a large installation would have it after a quarter of a year.

    python -m tests.bench.seed --url URL [--jobs 100000] [--runs 10000000] [--nodes 1000]

Takes some ten minutes at full size and prints how far it is. A database that holds anything is
left alone. Whoever looks at it afterwards logs in as "admin" with the password that is printed at
the end; start no engine on it, or the scheduler starts to work through it: see console_admin.py.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

import sqlalchemy as sa

from tests.bench.seed.jobs import Sizes, write_executors, write_jobs, write_nodes
from tests.bench.seed.ledger import ATTEMPT_COLUMNS, COLUMNS, Ledger, write_logs
from tests.bench.seed.people import AUDIT_COLUMNS, PASSWORD, audit_lines, write_people
from tests.bench.seed.writer import Writer
from tickwheel_admin.domain.as_of.spans import REACHES_MS, SHORT_MS
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.connections import create_engine
from tickwheel_admin.store.database.migrate import upgrade
from tickwheel_admin.store.triggers.planning import ensure_buckets

BEYOND_SEEDED = 1_000_000  # new ids begin so far behind the seeded ones


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.seed", description=__doc__)
    parser.add_argument("--url", required=True, help="SQLAlchemy URL of an empty database")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--executors", type=int, default=200)
    parser.add_argument("--audit", type=int, help="entries of the audit (default: runs / 10)")
    asked = parser.parse_args()
    problem = seed(
        asked.url,
        jobs=asked.jobs,
        runs=asked.runs,
        nodes=asked.nodes,
        executors=asked.executors,
        audit=asked.runs // 10 if asked.audit is None else asked.audit,
    )
    print(problem or f'Done. Log in as "admin" with "{PASSWORD}".')
    return 1 if problem else 0


def seed(url: str, *, jobs: int, runs: int, nodes: int, executors: int, audit: int) -> str | None:
    """Fill the database; returns why it did not, or None."""
    with_clock = create_engine(url, connections=1)
    upgrade(with_clock)
    with with_clock.begin() as conn:
        if conn.execute(sa.select(tables.executor.c.id).limit(1)).first() is not None:
            return "This database is not empty. Give it a new one: what was begun is not continued."
        ensure_buckets(conn)
        now = now_ms(conn)
    with_clock.dispose()
    sizes = Sizes(jobs=jobs, runs=runs, nodes=nodes, executors=executors, audit=audit, now=now)
    _fill(Writer(url), sizes)
    return None


def _fill(writer: Writer, sizes: Sizes) -> None:
    chance = random.Random(7)
    started = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - started:7.1f} s  {what}", flush=True)

    write_executors(writer, sizes)
    tell(f"{sizes.executors:,} executors")
    jobs = write_jobs(writer, sizes, chance)
    tell(f"{sizes.jobs:,} jobs")
    write_people(writer, sizes, chance)
    for table in (tables.run, tables.audit):
        writer.drop_indexes(table)
    for written in writer.write(tables.audit, AUDIT_COLUMNS, audit_lines(sizes, chance)):
        if written % 500_000 == 0:
            tell(f"{written:,} entries of the audit")
    ledger = Ledger(sizes, jobs, chance)
    for written in writer.write(tables.run, COLUMNS, ledger.lines()):
        writer.write_all(tables.run_attempt, ATTEMPT_COLUMNS, ledger.attempts)
        ledger.attempts.clear()
        if written % 500_000 == 0 or written == sizes.runs:
            tell(f"{written:,} runs")
    write_nodes(writer, sizes, ledger.in_use)
    write_logs(writer, sizes)
    for table in (tables.audit, tables.run):
        writer.make_indexes(table)
        tell(f"the indexes of {table.name}")
    _note_spans(writer)
    tell("runs that took long")
    _hand_on_ids(writer, sizes)
    writer.analyze()
    tell("statistics")


def _note_spans(writer: Writer) -> None:
    """What the end of a run that took more than five minutes notes for the time machine."""
    run = tables.run
    length = run.c.ended_at - run.c.created_at
    powers = [(length <= reach, n) for n, reach in enumerate(REACHES_MS) if reach is not None]
    noted = sa.select(
        run.c.id,
        sa.case(*powers, else_=len(powers)),
        run.c.created_at,
        run.c.ended_at,
        run.c.executor_id,
        run.c.job_id,
    ).where(run.c.ended_at > run.c.scheduled_at + SHORT_MS)
    names = ("run_id", "length", "from_at", "ended_at", "executor_id", "job_id")
    with writer.engine.begin() as conn:
        conn.execute(sa.insert(tables.run_span).from_select(names, noted))


def _hand_on_ids(writer: Writer, sizes: Sizes) -> None:
    """Admins go on behind the ids that were given here."""
    names = [table.name for table in tables.metadata.sorted_tables if "id" in table.c]
    beyond = max(sizes.runs, sizes.audit, sizes.jobs) + BEYOND_SEEDED
    with writer.engine.begin() as conn:
        conn.execute(sa.delete(tables.id_block))
        conn.execute(
            sa.insert(tables.id_block), [{"name": name, "next_id": beyond} for name in names]
        )


if __name__ == "__main__":
    sys.exit(main())
