"""Blocking: never more at once than the job allows, in the ledger and on the nodes (G8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from tests.simulation.checks.ledger import FINAL, LIVE, Ledger
from tests.simulation.checks.xxl_gaps import Gaps
from tests.simulation.handlers import Journal, Start
from tests.simulation.history import History
from tests.simulation.scheduler import Process

PARKED = 2**53 - 1
SAME_MOMENT = 0.001  # seconds: a frozen process wakes up and stops what it must in one moment


def check_blocking(
    ledger: Ledger,
    journal: Journal,
    processes: Mapping[str, Process],
    history: History,
    gaps: Gaps,
) -> None:
    """Check every job that is not parallel."""
    _check_ledger(ledger, history)
    _check_handlers(ledger, journal, processes, history, gaps)


def _rules(ledger: Ledger, run: Any) -> dict[str, Any] | None:
    rules = ledger.config(run)["blocking"]
    return None if rules["strategy"] == "parallel" else rules


def _lane(run: Any, rules: Mapping[str, Any]) -> Hashable:
    """What a run stands in line for; a shard of a serial job has a line of its own."""
    if run.fire_id is None or rules["strategy"] != "serial":
        return "job"
    return ("node", run.pinned_node_id) if run.pinned_node_id else ("shard", run.shard_index)


def _stands_in_line(run: Any, rules: Mapping[str, Any]) -> bool:
    """Of a job with shards, each shard when it is serial, else the whole fire."""
    if rules["strategy"] == "serial":
        return run.shard_index != -1
    return run.fire_id is None


# --- what the ledger says ------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Standing:
    run: Any
    state: str
    due_at: int
    added_at: float  # virtual seconds
    expires_at: float  # UTC epoch ms; what is too late to start stands before nobody
    attempt: int = 0

    @property
    def order(self) -> tuple[int, int]:
        return self.run.scheduled_at, self.run.id


def _check_ledger(ledger: Ledger, history: History) -> None:
    """Go through all changes in order, and look at each claim and each skip."""
    standing: dict[int, _Standing] = {}
    of_job: defaultdict[int, set[int]] = defaultdict(set)
    # An edit takes back what is yet to come; once the clock was set back, also what stood in line.
    incomplete = {row.job_id for row in ledger.changes if row.what == "run-" and ledger.went_back}
    for row in ledger.changes:
        run = ledger.runs.get(row.id)
        if run is None or (run.id not in standing and row.what != "run+"):
            continue  # taken back by an edit
        rules = _rules(ledger, run)
        if rules is None or not _stands_in_line(run, rules):
            continue
        if row.what == "run+":
            if row.state not in FINAL:
                within = ledger.config(run)["start_within_ms"]
                standing[run.id] = _Standing(
                    run=run,
                    state=row.state,
                    due_at=row.due_at,
                    added_at=row.vt,
                    expires_at=inf if within is None else row.due_at + within,
                )
                of_job[run.job_id].add(run.id)
            continue
        before, others = standing[run.id], []
        lane = _lane(run, rules)
        for other_id in of_job[run.job_id]:
            other = standing[other_id]
            if other_id != run.id and _lane(other.run, rules) == lane:
                others.append(other)
        if before.state == "queued" and row.state in LIVE:
            _check_claim(row, before, others, rules, history)
        elif before.state == "queued" and row.state == "skipped" and run.job_id not in incomplete:
            _check_skip(row, before, others, rules, history)
        before.state, before.due_at, before.attempt = row.state, row.new_due_at, row.attempt
        if row.state in FINAL:
            of_job[run.job_id].discard(run.id)


def _ready(each: _Standing, now: int) -> bool:
    return each.state == "queued" and (each.due_at == PARKED or each.due_at <= now)


def _check_claim(
    row: Any,
    run: _Standing,
    others: Sequence[_Standing],
    rules: Mapping[str, Any],
    history: History,
) -> None:
    live = [other for other in others if other.state in LIVE]
    if len(live) >= rules["concurrency"]:
        names = " ".join(f"run {other.run.id}" for other in live)
        history.violation(f"G8: run {row.id} was claimed while {names} of its job were live")
    if run.attempt or rules["strategy"] != "serial":
        return
    earlier = [
        other
        for other in others
        # Shards that the very same transaction made were not there when it decided.
        if not other.attempt
        and other.added_at < row.vt
        and _ready(other, row.at)
        and row.at <= other.expires_at
        and other.order < run.order
    ]
    if len(earlier) >= rules["concurrency"] - len(live):
        names = " ".join(f"run {other.run.id}" for other in earlier)
        history.violation(f"G8: run {row.id} was claimed before {names}, which were due before it")


def _check_skip(
    row: Any,
    run: _Standing,
    others: Sequence[_Standing],
    rules: Mapping[str, Any],
    history: History,
) -> None:
    live = sum(other.state in LIVE for other in others)
    queued = [other for other in others if other.state == "queued"]
    earlier = sum(other.order < run.order for other in queued)
    # A due retry takes its place before what never started, be that older.
    retries = sum(
        bool(other.attempt) and other.order > run.order and _ready(other, row.at)
        for other in queued
    )
    # Of what was decided at once, the newest may have started already.
    later = sum(other.order > run.order for other in others if other.state not in FINAL)
    strategy, n = rules["strategy"], rules["concurrency"]
    justified = {
        "discarded": strategy == "discard_later" and live + earlier + retries >= n,
        "covered": strategy == "cover_early" and later >= n,
        "too_many_waiting": strategy == "serial"
        and rules["max_waiting"] is not None
        and earlier + retries - max(n - live, 0) >= rules["max_waiting"],
    }
    if not justified.get(row.reason, True):
        history.violation(
            f"G8: run {row.id} was skipped as {row.reason}; {live} were live, {earlier} waited"
            f" before it and {later} behind it"
        )


# --- what really ran -----------------------------------------------------------------------------


def _check_handlers(
    ledger: Ledger,
    journal: Journal,
    processes: Mapping[str, Process],
    history: History,
    gaps: Gaps,
) -> None:
    released, lost = _let_go(ledger)
    spans: defaultdict[tuple[int, Hashable], list[tuple[float, float, int, Start]]] = defaultdict(
        list
    )
    most: dict[tuple[int, Hashable], int] = {}
    for start in journal.starts:
        run = ledger.runs.get(start.run)
        rules = None if run is None else _rules(ledger, run)
        if run is None or rules is None or gaps.may_overlap(start):
            continue
        key = (run.job_id, _lane(run, rules))
        unit = start.run
        if run.fire_id is not None and rules["strategy"] != "serial":
            unit = run.fire_id  # the shards of one fire run side by side
        most[key] = rules["concurrency"]
        process = processes[start.process]
        ended = journal.ended_at.get((start.run, start.attempt), inf)
        ended = min(ended, inf if process.died_at is None else process.died_at)
        # An operator stops waiting; `continue` ends with the time that a lost run keeps its place.
        ended = min(ended, released.get(start.run, inf))
        if rules["when_cut_off"] == "continue":
            ended = min(ended, lost.get((start.run, start.attempt), inf))
        for since, until in _awake(start.vt, ended, process.frozen):
            spans[key].append((since, until, unit, start))
    for key, found in spans.items():
        _check_lane(key, found, most[key], history)


def _let_go(ledger: Ledger) -> tuple[dict[int, float], dict[tuple[int, int], float]]:
    """When an operator released a run, and when an attempt was given up for lost."""
    released: dict[int, float] = {}
    lost: dict[tuple[int, int], float] = {}
    for row in ledger.changes:
        if row.what == "run" and row.reason == "released":
            released.setdefault(row.id, row.vt)
        if row.what == "run" and (row.state == "lost" or row.reason == "retry_after_lost"):
            lost.setdefault((row.id, row.attempt), row.vt)
    return released, lost


def _awake(
    since: float, until: float, frozen: Iterable[tuple[float, float]]
) -> list[tuple[float, float]]:
    """The parts of a time in which a process was not frozen."""
    parts: list[tuple[float, float]] = []
    for freeze, thaw in frozen:
        if freeze < until and thaw > since:
            parts.append((since, freeze))
            since = max(since, thaw)
    parts.append((since, until))
    return [(low, high) for low, high in parts if high - low > SAME_MOMENT]


def _check_lane(
    key: tuple[int, Hashable],
    spans: Sequence[tuple[float, float, int, Start]],
    most: int,
    history: History,
) -> None:
    running: list[tuple[float, float, int, Start]] = []
    for span in sorted(spans, key=lambda span: span[:3]):
        running = [other for other in running if other[1] - span[0] > SAME_MOMENT]
        running.append(span)
        if len({unit for _, _, unit, _ in running}) > most:
            names = " and ".join(
                f"{start.run}/{start.attempt} on {start.process}" for *_, start in running
            )
            history.violation(f"G8: job {key[0]} ran {names} at once at {span[0]:.3f} s")
