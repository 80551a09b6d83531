"""Deleting very many old runs: how long it takes, and how late other fires are meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tests.bench.scenarios.steady import Steady, steady
from tests.bench.testbed.bed import Bed, made
from tests.bench.testbed.old_runs import FIRST_JOB, add_old_runs
from tests.support.polling import wait_until
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.system.settings import read_settings, replace_settings

BEGIN_SECONDS = 120.0  # a cleaner that has nothing to do looks once a minute
KEPT_DAYS = 1  # the last twentieth of the old runs stays
ALONE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """One measurement; lateness in milliseconds after `scheduled_at`."""

    old_runs: int
    before_p50_ms: int  # late, while nothing is deleted
    before_p99_ms: int
    beside_p50_ms: int  # the same fires, while old runs are deleted
    beside_p99_ms: int
    beside_max_ms: int
    deleted_per_second_beside: int
    deleted_per_second: int  # while nothing else happens
    cpu_share: dict[str, float]  # of one core, beside


def retention(kind: str, *, runs: int, fires_per_second: int, seconds: int) -> Retention:
    """Shorten the retention of an installation that has so many old runs."""
    with made(kind) as bed:
        add_old_runs(bed, count=runs)
        before = steady(bed, fires_per_second=fires_per_second, seconds=seconds)
        _shorten(bed)
        wait_until(
            lambda: _left(bed) < runs, timeout_seconds=BEGIN_SECONDS, what="old runs are deleted"
        )
        beside, per_second_beside = _beside(bed, fires_per_second, seconds)
        return Retention(
            old_runs=runs,
            before_p50_ms=before.started_p50_ms,
            before_p99_ms=before.started_p99_ms,
            beside_p50_ms=beside.started_p50_ms,
            beside_p99_ms=beside.started_p99_ms,
            beside_max_ms=beside.started_max_ms,
            deleted_per_second_beside=per_second_beside,
            deleted_per_second=_alone(bed),
            cpu_share=beside.cpu_share,
        )


def _shorten(bed: Bed) -> None:
    def keep_less(conn: sa.Connection) -> None:
        replace_settings(conn, replace(read_settings(conn), retention_days=KEPT_DAYS))

    bed.database.run_sync(keep_less)


def _beside(bed: Bed, fires_per_second: int, seconds: int) -> tuple[Steady, int]:
    there, began = _left(bed), time.monotonic()
    beside = steady(bed, fires_per_second=fires_per_second, seconds=seconds)
    left = _left(bed)
    if left <= there // 20:
        raise AssertionError("too few old runs: all are gone before it was measured")
    return beside, round((there - left) / (time.monotonic() - began))


def _alone(bed: Bed) -> int:
    there, began = _left(bed), time.monotonic()
    time.sleep(ALONE_SECONDS)
    return round((there - _left(bed)) / (time.monotonic() - began))


def _left(bed: Bed) -> int:
    old = sa.select(sa.func.count()).select_from(run).where(run.c.job_id >= FIRST_JOB)
    return int(bed.database.read_sync(lambda conn: conn.execute(old).scalar_one()))
