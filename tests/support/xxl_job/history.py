"""The log of an XXL-JOB that did what it should, but for faults that are planted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.support.xxl_job.installation import trigger_message
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.xxl_job.audit.instants import CronInstants


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """When a job ran, and what went wrong by number of its instant."""

    id: int
    cron: str = ""
    every_seconds: int = 0
    lost: frozenset[int] = frozenset()
    doubled: frozenset[int] = frozenset()
    late: dict[int, int] = field(default_factory=dict)  # seconds
    special: dict[int, dict[str, Any]] = field(default_factory=dict)  # columns
    shards: int = 0  # nodes of a broadcast

    def instants(self, start: int, end: int, zone: str) -> list[int]:
        """In (start, end], UTC seconds."""
        if self.every_seconds:
            return list(range(start + self.every_seconds, end + 1, self.every_seconds))
        schedule, found, at = CronInstants(self.cron, zone_of(zone)), [], start
        while (following := schedule.next_after(at)) is not None and following <= end:
            found.append(following)
            at = following
        return found

    def rows(self, start: int, end: int, zone: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """UTC seconds and columns."""
        for number, instant in enumerate(self.instants(start, end, zone)):
            if number in self.lost:
                continue
            columns = {"job_id": self.id} | self.special.get(number, {})
            for _ in range(2 if number in self.doubled else 1):
                for shard in range(self.shards or 1):
                    at = instant + self.late.get(number, 0)
                    yield at, columns | self._shard(shard)

    def _shard(self, shard: int) -> dict[str, Any]:
        return {"executor_sharding_param": f"{shard}/{self.shards}"} if self.shards else {}


def log_rows(
    jobs: Iterable[PlannedJob],
    *,
    start: int,
    end: int,
    cron_zone: str,
    stored_zone: str,
    others: Iterable[tuple[int, int, str]] = (),
) -> list[dict[str, Any]]:
    """Rows in the order of time.

    Args:
        others: instant, job and trigger type of runs that were not by schedule.
    """
    rows = [each for job in jobs for each in job.rows(start, end, cron_zone)]
    rows += [
        (at, {"job_id": job, "trigger_msg": trigger_message(kind)}) for at, job, kind in others
    ]
    rows.sort(key=lambda each: (each[0], each[1]["job_id"]))
    return [{"trigger_time": wall(at, stored_zone)} | columns for at, columns in rows]


def wall(at: int, zone: str) -> str:
    """A DATETIME."""
    local = zone_of(zone).to_local(at)[0]
    return datetime.fromtimestamp(local, UTC).strftime("%Y-%m-%d %H:%M:%S")
