"""Runs that start late or take long, noticed in the transaction that records it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.alarms.run_limits import MEASURED, RunLimits, slow_signal
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.runs.run import Move
from tickwheel_admin.store.database.tables import job

MAX_KNOWN = 100_000  # jobs whose usual duration is kept


class RunWatch:
    """What one admin measures runs by; shared by its threads. Without rules it costs nothing."""

    def __init__(self) -> None:
        self._limits = RunLimits()
        self._usual: dict[int, int] = {}  # by job, ms

    def set_rules(self, rules: Iterable[AlarmRule]) -> None:
        """Measure by these from now on; those of other kinds are passed over."""
        self._limits = RunLimits(each for each in rules if each.kind in MEASURED)
        self._usual = {}  # it changes as well, slowly

    @property
    def has_rules(self) -> bool:
        """Whether anything is measured."""
        return bool(self._limits)

    def signals(self, conn: sa.Connection, moves: Sequence[Move], *, now: int) -> list[AlarmSignal]:
        """For starts and ends among these moves that a rule may want to hear of."""
        if not self._limits:
            return []
        signals, maybe = self._limits.measured(moves, self._usual, now=now)
        if maybe:
            usual = self._usual_ms(conn, {each.run.job_id for each in maybe})
            signals += [
                slow_signal(each.run, each.took_ms, now=now)
                for each in maybe
                if 0 < usual.get(each.run.job_id, 0) * each.factor < each.took_ms
            ]
        return signals

    def _usual_ms(self, conn: sa.Connection, job_ids: Collection[int]) -> dict[int, int]:
        known = self._usual
        missing = sorted(each for each in job_ids if each not in known)
        if missing:
            rows = conn.execute(sa.select(job.c.id, job.c.usual_ms).where(job.c.id.in_(missing)))
            found = {row.id: row.usual_ms for row in rows}
            if len(known) + len(found) > MAX_KNOWN:
                known = self._usual = {}
            known.update(found)
        return {each: known[each] for each in job_ids if each in known}
