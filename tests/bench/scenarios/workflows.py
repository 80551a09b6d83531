"""Workflows: steps per second of many graphs at once, and how long a chain of steps takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tests.bench.scenarios.flood import Flood, flood
from tests.bench.testbed.bed import Bed
from tickwheel_admin.domain.jobs.job import WORKFLOW
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.store.database.tables import run as run_table

WARM_UP_RUNS = 50
POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 60.0
FIRST, SIDE_BY_SIDE, LAST = "first", 4, "last"
STEPS = 2 + 2 * SIDE_BY_SIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflows:
    """Graphs of ten steps that do nothing: one, four, four after them, and one after all."""

    runs: int  # of the workflow
    steps: int  # of all of them
    steps_per_second: int  # from the instant that the runs were due until the last has ended
    cpu_us_per_step: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Steps that do nothing, each after the one before, with nothing else to do."""

    steps: int
    median_ms: float  # of one run of the workflow, from its request until its end is recorded
    worst_ms: float
    cpu_us_per_step: dict[str, int]


def workflows(bed: Bed, *, runs: int) -> Workflows:
    """Runs of such a graph, due at one instant."""
    job_id = _add(bed, "graph", _graph())
    flood(bed, job_id=job_id, runs=WARM_UP_RUNS, shard_index=WORKFLOW)
    before = bed.database.read_sync(_steps_succeeded)
    told: Flood = flood(bed, job_id=job_id, runs=runs, shard_index=WORKFLOW)
    steps = bed.database.read_sync(_steps_succeeded) - before
    if steps != runs * STEPS:
        raise AssertionError(f"{steps} of {runs * STEPS} steps succeeded")
    return Workflows(
        runs=runs,
        steps=steps,
        steps_per_second=round(steps / told.seconds),
        cpu_us_per_step=_per_step(told.cpu_seconds, steps),
    )


def chain(bed: Bed, *, steps: int, repeats: int) -> Chain:
    """One chain after the other."""
    job_id = _add(bed, "chain", [_step(f"s{n}", f"s{n - 1}" if n else None) for n in range(steps)])
    _one(bed, job_id)  # with empty caches
    bed.wait_until_calm()
    before = bed.cpu_seconds()
    times = [_one(bed, job_id) for _ in range(repeats)]
    after = bed.cpu_seconds()
    spent = {name: after[name] - before[name] for name in before}
    return Chain(
        steps=steps,
        median_ms=round(statistics.median(times), 1),
        worst_ms=round(max(times), 1),
        cpu_us_per_step=_per_step(spent, steps * repeats),
    )


def _one(bed: Bed, job_id: int) -> float:
    """Run it once; milliseconds by the ledger."""
    run_id = bed.cluster.run_job(job_id)
    # Asked of the database, and not too often, for the admin's answers cost processor time too.
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (taken := bed.database.read_sync(_milliseconds, run_id)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"run {run_id} did not end within {TIMEOUT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    return float(taken)


def _graph() -> list[dict[str, Any]]:
    numbers = range(SIDE_BY_SIDE)
    return [
        _step(FIRST),
        *(_step(f"a{n}", FIRST) for n in numbers),
        *(_step(f"b{n}", f"a{n}") for n in numbers),
        _step(LAST, *(f"b{n}" for n in numbers)),
    ]


def _step(key: str, *needs: str | None) -> dict[str, Any]:
    return {"key": key, "handler": "noop", "needs": [each for each in needs if each is not None]}


def _add(bed: Bed, name: str, steps: Sequence[Mapping[str, Any]]) -> int:
    job = {
        "executor_id": bed.cluster.executor_id,
        "name": f"{name}-{time.time_ns()}",
        "workflow": {"steps": steps},
    }
    return int(bed.cluster.api().post("/jobs", job)["id"])


def _per_step(cpu_seconds: Mapping[str, float], steps: int) -> dict[str, int]:
    """Microseconds of processor time, by part."""
    return {name: round(seconds / steps * 1e6) for name, seconds in cpu_seconds.items()}


def _steps_succeeded(conn: sa.Connection) -> int:
    succeeded = sa.and_(
        run_table.c.origin == Origin.STEP.value, run_table.c.state == RunState.SUCCEEDED.value
    )
    return int(conn.execute(sa.select(sa.func.count()).where(succeeded)).scalar_one())


def _milliseconds(conn: sa.Connection, run_id: int) -> int | None:
    """From its request until its end is recorded; None: it has not ended."""
    wanted = sa.select(run_table.c.state, run_table.c.ended_at - run_table.c.created_at)
    state, taken = conn.execute(wanted.where(run_table.c.id == run_id)).one()
    if taken is not None and state != RunState.SUCCEEDED.value:
        raise AssertionError(f"run {run_id} is {state}")
    return None if taken is None else int(taken)
