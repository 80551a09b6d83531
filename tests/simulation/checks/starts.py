"""What must not start: fires of a paused time, and runs that are too late."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from tests.simulation.checks.ledger import Ledger
from tests.simulation.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A time in which an executor, or everything, was paused."""

    executor_id: int  # 0: all of them
    paused_at: int  # the instant after which nothing runs
    resumed_at: float  # database time; infinite: it never was
    since: int  # seq
    until: float  # seq

    def concerns(self, run: Any) -> bool:
        return self.executor_id in (0, run.executor_id) and run.scheduled_at > self.paused_at


def pauses(ledger: Ledger) -> list[Pause]:
    """Every pause of an executor or of everything."""
    found: list[Pause] = []
    begun: dict[int, Any] = {}

    def end(executor_id: int, resumed_at: float, seq: float) -> None:
        row = begun.pop(executor_id, None)
        if row is not None:
            found.append(
                Pause(
                    executor_id=executor_id,
                    paused_at=row.next_fire_at,
                    resumed_at=resumed_at,
                    since=row.seq,
                    until=seq,
                )
            )

    for row in ledger.other("pause"):
        end(row.id, row.at, row.seq)
        if row.next_fire_at is not None:
            begun[row.id] = row
    for executor_id in list(begun):
        end(executor_id, inf, inf)
    return found


def check_pauses(ledger: Ledger, history: History) -> None:
    """Nothing scheduled after the instant of a pause is taken up while it lasts."""
    all_pauses = pauses(ledger)
    for row in ledger.changes:
        run = ledger.runs.get(row.id)
        if (
            run is None
            or run.trigger_id is None
            or run.fire_id is not None
            or row.what != "run"
            or row.old_state != "queued"
        ):
            continue
        inside = [p for p in all_pauses if p.since < row.seq < p.until and p.concerns(run)]
        if row.state in ("dispatched", "running") and not row.old_tries and inside:
            history.violation(
                f"run {run.id} for {run.scheduled_at} was claimed, paused since"
                f" {inside[0].paused_at}"
            )
        if row.state == "skipped" and row.reason == "paused" and not inside:
            history.violation(f"run {run.id} was skipped as paused; nothing was")


def check_start_by(ledger: Ledger, history: History) -> None:
    """A first try starts in time, or the run is skipped; and none is skipped before its time."""
    first_due = {row.id: row.due_at for row in ledger.changes if row.what == "run+"}
    for row in ledger.changes:
        run = ledger.runs.get(row.id)
        if run is None or row.what != "run" or row.old_state != "queued":
            continue
        within = ledger.config(run)["start_within_ms"]
        if run.fire_id is not None:
            continue  # its fire has started in time; shards carry its deadline, or none
        if row.state == "skipped" and row.reason == "expired":
            if within is None or row.at < first_due[run.id] + within:
                history.violation(f"run {run.id} was skipped as expired before its time")
        elif (
            row.state in ("dispatched", "running")
            and within is not None
            and not row.old_tries
            and row.at > max(first_due[run.id], run.created_at) + within
        ):
            history.violation(
                f"run {run.id} was claimed {row.at - run.scheduled_at} ms after its instant,"
                f" it was to start within {within} ms"
            )
