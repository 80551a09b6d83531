"""Workflows while admins and nodes die: no step is lost, doubled or stuck.

One workflow with all that a graph can have is fired twice a second: steps beside each other, items,
tries again, a wait, another workflow, a failure that is handled and one branch that must not run.
Afterwards the tables are read with queries of their own, and compared with what each run of this
graph must have done.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from tests.drill.bed import Bed
from tests.drill.report import Outcome
from tests.drill.scenarios import REACHED, noticed
from tests.drill.stories import HELD_NODE, all_running
from tests.e2e.fires import wait_for_ends
from tests.e2e.ledger import Kind, Problem, missing_fires, problems, read_journals

FIRES_PER_SECOND = 2
ITEMS = 6
PARALLEL = 3
WAIT_SECONDS = 1
FROZEN_SECONDS = 8.0
AFTERMATH_SECONDS = 6.0

# What became of each step of the outer workflow, and of the inner one, in every run.
STATES = {
    "start": "succeeded",
    "each": "succeeded",
    "collect": "succeeded",
    "tried": "succeeded",
    "nap": "succeeded",
    "inner": "succeeded",
    "bad": "failed",
    "rescue": "succeeded",
    "never": "skipped",
    "passed": "skipped",
    "join": "succeeded",
}
INNER_STATES = {"first": "succeeded", "second": "succeeded"}
# What each step needs to have ended.
NEEDS = {
    "each": ["start"],
    "collect": ["each"],
    "tried": ["start"],
    "nap": ["start"],
    "inner": ["nap"],
    "bad": ["start"],
    "rescue": ["bad"],
    "never": ["bad"],
    "passed": ["never"],
    "join": ["collect", "tried", "inner", "rescue", "passed"],
    "second": ["first"],
}
WITHOUT_RUN = {"nap", "never", "passed", "each"}  # or one for each item


def add_workflows(bed: Bed) -> tuple[int, int]:
    """The outer workflow, which fires from in two seconds on, and the one within it."""
    name = f"workflow {time.monotonic_ns()}"
    tries = {"retries": 5, "retry_delay_seconds": 0.5, "retry_on_lost": True}

    def work(key: str, seconds: float, **fields: Any) -> dict[str, Any]:
        body = {"handler": "work", "parameters": {"seconds": seconds}} | tries
        return {"key": key, "needs": NEEDS.get(key, [])} | body | fields

    def job(name: str, steps: list[dict[str, Any]], **fields: Any) -> int:
        made = {
            "executor_id": bed.cluster.executor_id,
            "name": name,
            "workflow": {"steps": steps},
        } | fields
        return int(bed.cluster.api().post("/jobs", made)["id"])

    inner = job(f"inner {name}", [work("first", 0.1), work("second", 0)])
    items = {"items": list(range(ITEMS)), "max_parallel": PARALLEL}
    failed = [{"step": "bad", "outcome": "failed"}]
    ended = [{"step": each, "outcome": "ended"} for each in NEEDS["join"]]
    outer = job(
        name,
        [
            work("start", 0.1),
            work("each", 0, for_each=items, parameters={"seconds": 0.1, "item": "${item}"}),
            work("collect", 0, parameters={"seconds": 0, "of": "${steps.each.result}"}),
            work("tried", 0, handler="fail_once"),
            {"key": "nap", "needs": NEEDS["nap"], "wait": {"seconds": WAIT_SECONDS}},
            {"key": "inner", "needs": NEEDS["inner"], "workflow": inner},
            {"key": "bad", "needs": NEEDS["bad"], "handler": "fail"},
            work("rescue", 0, needs=failed),
            work("never", 0),
            work("passed", 0),
            work("join", 0, needs=ended),
        ],
        triggers=[
            {
                "kind": "fixed_rate",
                "every_seconds": 1,
                "anchor_at": round(time.time() * 1000) + 2_000 + 1_000 * n // FIRES_PER_SECOND,
                "misfire": "fire_all",
            }
            for n in range(FIRES_PER_SECOND)
        ],
    )
    return outer, inner


# --- what happens meanwhile ----------------------------------------------------------------------


def _admin_killed(bed: Bed) -> None:
    bed.admins[bed.victim].process.kill()
    time.sleep(1)
    bed.start_admin(bed.victim, meet=False)


def _node_killed(bed: Bed) -> None:
    bed.nodes[HELD_NODE].process.kill()
    noticed(bed, HELD_NODE)
    bed.start_node(HELD_NODE)


def _frozen(bed: Bed, *, admin: bool) -> None:
    process = (bed.admins[bed.victim] if admin else bed.nodes[HELD_NODE]).process
    process.send_signal(signal.SIGSTOP)
    time.sleep(FROZEN_SECONDS)
    process.send_signal(signal.SIGCONT)


def _killed_at(bed: Bed, *, point: str) -> None:
    process = bed.start_admin(bed.victim, point=f"{point}:kill9:20").process
    process.wait_for_line(REACHED, timeout_seconds=60)
    process.wait()
    bed.start_admin(bed.victim, meet=False)


FAULTS: dict[str, Callable[[Bed], None]] = {
    "killed admin": _admin_killed,
    "killed node": _node_killed,
    "frozen admin": partial(_frozen, admin=True),
    "frozen node": partial(_frozen, admin=False),
} | {
    f"{point} × kill9": partial(_killed_at, point=point)
    for point in ("claiming", "claimed", "recording", "recorded")
}


def workflows(bed: Bed, *, fault: str) -> Outcome:
    """Fire workflows, let that happen, wait until all is quiet, and look at every step."""
    outcome = Outcome(database=bed.kind, drill=f"workflows, {fault}")
    all_running(bed)
    outer, inner = add_workflows(bed)
    time.sleep(4)
    FAULTS[fault](bed)
    time.sleep(AFTERMATH_SECONDS)
    for admin in bed.admins.values():
        admin.process.wait_for_http(f"{admin.url}/healthz", timeout_seconds=60)
    paused_at = round(time.time() * 1000)  # the servers run on this machine
    bed.cluster.api().post(f"/jobs/{outer}/pause")
    wait_for_ends(bed.reader)
    runs, found = check(bed, outer, inner, paused_at=paused_at)
    outcome.runs = runs
    outcome.problems += found
    return outcome


# --- what must have become of them ---------------------------------------------------------------


def check(bed: Bed, outer: int, inner: int, *, paused_at: int) -> tuple[int, list[Problem]]:
    """(runs of workflows and steps, every broken promise)."""
    read = bed.reader.query
    top = read(f"SELECT * FROM run WHERE job_id = {outer}")
    below = read(f"SELECT * FROM run WHERE job_id = {inner}")
    ids = ", ".join(str(run.id) for run in (*top, *below)) or "0"
    steps = read(f"SELECT * FROM run WHERE parent_run_id IN ({ids})")
    rows = read(f"SELECT * FROM workflow_step WHERE workflow_run_id IN ({ids})")
    items = read(f"SELECT * FROM workflow_item WHERE workflow_run_id IN ({ids})")
    found = [*missing_fires(bed.reader.read([outer]), paused_at)]
    of_run: defaultdict[int, list[Any]] = defaultdict(list)
    rows_of: defaultdict[int, list[Any]] = defaultdict(list)
    items_of: defaultdict[int, list[Any]] = defaultdict(list)
    for lists, each in ((of_run, steps), (rows_of, rows), (items_of, items)):
        for row in each:
            key = row.parent_run_id if lists is of_run else row.workflow_run_id
            lists[key].append(row)
    for run in top:
        told = _of_one(run, STATES, of_run[run.id], rows_of[run.id], items_of[run.id])
        found += [Problem(kind, f"workflow run {run.id}: {text}") for kind, text in told]
    parents = {run.parent_run_id for run in below}
    if len(parents) != len(below) or len(below) != len(top):
        told_of = f"{len(below)} runs of the inner workflow of {len(parents)} of {len(top)} runs"
        found.append(Problem(Kind.LOST, told_of))
    for run in below:
        told = _of_one(run, INNER_STATES, of_run[run.id], rows_of[run.id], items_of[run.id])
        found += [Problem(kind, f"inner run {run.id}: {text}") for kind, text in told]
    found += _as_journals_say(bed, {run.job_id for run in steps} - {inner})
    bed.earlier |= {run.id for run in (*top, *below, *steps)}
    return len(top) + len(steps), found


def _as_journals_say(bed: Bed, jobs: Iterable[int]) -> list[Problem]:
    """What the nodes say of the steps that do the usual work: each start and each result."""
    chosen = ", ".join(map(str, sorted(jobs))) or "0"
    work = bed.reader.query(f"SELECT id FROM job WHERE id IN ({chosen}) AND handler = 'work'")
    if not work:
        return [Problem(Kind.LOST, "no step has run")]
    ledger = bed.reader.read([row.id for row in work])
    mine = {run.id for run in ledger.runs}
    journals = read_journals(node.journal for node in bed.cluster.nodes)
    return problems(
        ledger,
        replace(
            journals,
            starts=Counter({key: n for key, n in journals.starts.items() if key[0] in mine}),
            ends=Counter({key: n for key, n in journals.ends.items() if key[0] in mine}),
        ),
        paused_at=0,
    )


def _of_one(
    run: Any, states: dict[str, str], steps: list[Any], rows: list[Any], items: list[Any]
) -> list[tuple[Kind, str]]:
    """What is wrong with one run of a workflow."""
    found: list[tuple[Kind, str]] = []
    if run.state != "succeeded":
        found.append((Kind.FAILED, f"ended as {run.state}: {run.reason} {run.message}"))
    if len(rows) != len(states) or len({row.step_index for row in rows}) != len(states):
        found.append((Kind.LOST, f"has {len(rows)} rows of {len(states)} steps"))
    by_key: defaultdict[str, list[Any]] = defaultdict(list)
    for step in steps:
        by_key[str(step.request_key).split(":")[2]].append(step)
    in_order = sorted(rows, key=lambda row: int(row.step_index))
    for key, row in zip(states, in_order, strict=False):
        if row.state != states[key]:
            found.append((Kind.STUCK, f"{key} is {row.state} ({row.reason}), not {states[key]}"))
        wanted = ITEMS if key == "each" else 0 if key in WITHOUT_RUN else 1
        if len(by_key[key]) != wanted:
            kind = Kind.LOST if len(by_key[key]) < wanted else Kind.DOUBLED
            found.append((kind, f"{key} has {len(by_key[key])} runs and not {wanted}"))
    if "each" in states:
        found += _items(by_key["each"], items)
    ended = {key: max(each.ended_at or 0 for each in runs) for key, runs in by_key.items() if runs}
    ended |= {
        key: row.since for key, row in zip(states, in_order, strict=False) if key not in ended
    }
    for key, runs in by_key.items():
        for need in NEEDS.get(key, ()):
            # Not by when it was written: a transaction that waited for the one that ended the
            # other step has read the clock before.
            early = [each for each in runs if (each.started_at or 0) < ended.get(need, 0)]
            if early:
                found.append((Kind.OVERLAPPED, f"{key} began before the end of {need}"))
        if run.ended_at is not None and any(each.ended_at > run.ended_at for each in runs):
            found.append((Kind.STUCK, f"ended before its step {key}"))
    return found


def _items(runs: list[Any], items: list[Any]) -> list[tuple[Kind, str]]:
    """Each item ran once with its own value, and no more of them than were let at once."""
    found: list[tuple[Kind, str]] = []
    places = sorted(int(row.item_index) for row in items)
    values = sorted(json.loads(run.parameters)["item"] for run in runs)
    if places != list(range(ITEMS)) or values != list(range(ITEMS)):
        found.append((Kind.LOST, f"has the items {places} with the values {values}"))
    if {row.run_id for row in items} != {run.id for run in runs}:
        found.append((Kind.DOUBLED, "items and runs are not the same"))
    begins = [(run.started_at or 0, 1) for run in runs]
    ends = sorted(begins + [(run.ended_at or 0, -1) for run in runs])
    live = most = 0
    for _, change in ends:
        live += change
        most = max(most, live)
    if most > PARALLEL:
        found.append((Kind.OVERLAPPED, f"had {most} items at once"))
    return found
