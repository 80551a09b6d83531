"""What the ledger says, read once for all checks: runs, their configuration, and every change."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cached_property
from typing import Any

from tests.simulation.database import SimDatabase

FINAL = ("succeeded", "failed", "timed_out", "cancelled", "lost", "skipped")
LIVE = ("dispatched", "running")


class Ledger:
    """Everything in the database, and the memory of how it came to be."""

    def __init__(self, database: SimDatabase) -> None:
        self._database = database
        self.went_back = database.went_back  # the clock
        self.latest = database.latest()  # that the clock ever was
        self.runs: dict[int, Any] = {
            row.id: row for row in database.rows("SELECT * FROM run ORDER BY id")
        }
        self.configs: dict[tuple[int, int], dict[str, Any]] = {
            (row.job_id, row.revision): json.loads(row.config)
            for row in database.rows("SELECT job_id, revision, config FROM job_revision")
        }

    def config(self, run: Any) -> dict[str, Any]:
        """The configuration a run keeps."""
        return self.configs[run.job_id, run.job_revision]

    @cached_property
    def changes(self) -> list[Any]:
        """Every change of a run, in order."""
        return self._database.rows(
            "SELECT * FROM sim_change WHERE what IN ('run+', 'run', 'run-') ORDER BY seq"
        )

    @cached_property
    def ended(self) -> dict[int, Any]:
        """Run → the change with which it ended first."""
        ended: dict[int, Any] = {}
        for row in self.changes:
            if row.state in FINAL and row.what != "run-":
                ended.setdefault(row.id, row)
        return ended

    @cached_property
    def ended_late(self) -> dict[int, Any]:
        """Run → the change with which it ended otherwise, after it was lost."""
        return {
            row.id: row
            for row in self.changes
            if row.state in FINAL and row.what == "run" and self.ended[row.id].state != row.state
        }

    @cached_property
    def items(self) -> dict[tuple[int, int], set[int]]:
        """Run of a workflow and index of its step → runs of items, also those taken over."""
        items: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        for row in self._database.rows("SELECT * FROM workflow_item"):
            items[row.workflow_run_id, row.step_index].add(row.run_id)
        return items

    @cached_property
    def items_of_steps(self) -> dict[tuple[int, int], int | None]:
        """Run of a workflow and index of its step → how many items it has, if it came to them."""
        rows = self._database.rows("SELECT workflow_run_id, step_index, items FROM workflow_step")
        return {(row.workflow_run_id, row.step_index): row["items"] for row in rows}

    @cached_property
    def shards(self) -> dict[int, list[Any]]:
        """Whole fire → its shards."""
        shards: defaultdict[int, list[Any]] = defaultdict(list)
        for row in self.runs.values():
            if row.fire_id is not None:
                shards[row.fire_id].append(row)
        return shards

    def other(self, what: str) -> list[Any]:
        """Changes of something that is no run, in order."""
        return self._database.rows("SELECT * FROM sim_change WHERE what = ? ORDER BY seq", (what,))
