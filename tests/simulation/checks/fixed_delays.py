"""Fixed delays: one run after the other, each so long after the end of the one before."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

from tests.simulation.checks.ledger import Ledger
from tests.simulation.database import SimDatabase
from tests.simulation.history import History


def check_fixed_delays(ledger: Ledger, history: History) -> None:
    """Never two fires at once, and never one too early."""
    every: dict[int, list[tuple[int, int]]] = defaultdict(list)  # trigger → (seq, delay in ms)
    for what in ("trigger+", "trigger"):
        for row in ledger.other(what):
            spec = json.loads(row.spec)
            if spec["kind"] == "fixed_delay":
                every[row.id].append((row.seq, spec["every_ms"]))
    fires: defaultdict[int, list[Any]] = defaultdict(list)
    for row in ledger.changes:
        run = ledger.runs.get(row.id)
        is_fire = run is not None and run.fire_id is None
        if row.what == "run+" and row.trigger_id in every and is_fire:
            fires[row.trigger_id].append(row)
    for trigger_id, added in fires.items():
        edits = [seq for seq, _ in every[trigger_id]]
        delay = every[trigger_id][0][1]
        for before, after in pairwise(added):
            ended = ledger.ended.get(before.id)
            edited = any(before.seq < seq < after.seq for seq in edits)
            if edited:
                continue  # an edit, a pause or a resume arms it anew, from then on
            if ended is None or ended.seq > after.seq:
                history.violation(
                    f"G3: trigger {trigger_id} fired run {after.id} while run {before.id} was live"
                )
            elif not ledger.went_back and after.scheduled_at < ended.at + delay:
                early = ended.at + delay - after.scheduled_at
                history.violation(f"trigger {trigger_id} fired run {after.id} {early} ms too early")


def check_fixed_delays_go_on(database: SimDatabase, history: History) -> None:
    """While all is well: each has a next fire, or a run that will bring it."""
    for row in database.rows(
        'SELECT t.id, t.spec FROM "trigger" t JOIN job ON job.id = t.job_id'
        " WHERE t.state = 'active' AND NOT t.paused AND NOT job.paused AND t.next_fire_at IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM run WHERE run.trigger_id = t.id AND run.fire_id IS NULL"
        " AND run.state IN ('queued', 'dispatched', 'running'))"
    ):
        if json.loads(row.spec)["kind"] == "fixed_delay":
            history.violation(f"G3: trigger {row.id} has neither a next fire nor a live run")
