"""Longer stories: rolling restarts, a flapping socket, nodes that die, vanish, or are cut off."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tests.drill.bed import NODES, Bed
from tests.drill.measure import handed_on, late, takeover
from tests.drill.report import Outcome
from tests.drill.scenarios import noticed
from tests.e2e.fires import Settled
from tests.e2e.ledger import Kind, Problem, overlaps, read_journals
from tests.support.polling import wait_until

FLAPS = 20
HELD_NODE = "node-2"
WORK_SECONDS = 20.0  # longer than the 15 s of a lease
LATEST_STOP_SECONDS = 15.0  # by then a node that hears from nobody has ended what must end


def rolling_restart(bed: Bed, *, rounds: int) -> Outcome:
    """Each round restarts a node and an admin politely, under 100 fires a second.

    As a person would, it goes on when the nodes have met the new admin.
    """
    outcome = Outcome(database=bed.kind, drill=f"rolling restart × {rounds}")
    all_running(bed)
    began = time.time()
    fires = bed.fires(f"rolling {time.monotonic_ns()}", per_second=10, longest_seconds=0.4)
    time.sleep(2)
    for number in range(rounds):
        node = bed.nodes[NODES[number % len(NODES)]]
        if (code := node.process.stop()) != 0:
            outcome.problems.append(Problem(Kind.FAILED, f"{node.name} ended with {code}"))
        bed.start_node(node.name)
        name = bed.admin_names[number % len(bed.admin_names)]
        bed.start_admin(name)  # ends the old one, which must exit with 0
    settled = bed.settle(fires)
    _note(outcome, settled, since=began)
    outcome.problems += _all_succeeded_at_once(settled)
    return outcome


def flapping_socket(bed: Bed) -> Outcome:
    """The sockets to one admin break every second while the other admin hears the nodes."""
    outcome = Outcome(database=bed.kind, drill="flapping socket")
    all_running(bed)
    began = time.time()
    fires = bed.fires(f"flapping {time.monotonic_ns()}")
    for _ in range(FLAPS):
        time.sleep(1)
        bed.links[bed.victim].cut()
    settled = bed.settle(fires)
    _note(outcome, settled, since=began)
    outcome.problems += _all_succeeded_at_once(settled)
    return outcome


def slow_network(bed: Bed) -> Outcome:
    """Every piece to and from one admin is 0.3 s late, on the way to nodes and to the database."""
    outcome = Outcome(database=bed.kind, drill="slow network")
    all_running(bed)
    slowed = [bed.links[bed.victim], *bed.database_links.values()][:2]
    began = time.time()
    fires = bed.fires(f"slow {time.monotonic_ns()}")
    for link in slowed:
        link.delay(0.3)
    time.sleep(15)
    for link in slowed:
        link.delay(0)
    settled = bed.settle(fires)
    _note(outcome, settled, since=began)
    outcome.problems += _all_succeeded_at_once(settled)
    return outcome


def killed_admin(bed: Bed) -> Outcome:
    """`kill -9` of an admin at no particular moment."""
    outcome = Outcome(database=bed.kind, drill="killed admin")
    all_running(bed)
    fires = bed.fires(f"killed admin {time.monotonic_ns()}")
    time.sleep(4)
    at = time.time()
    bed.admins[bed.victim].process.kill()
    time.sleep(8)
    settled = bed.settle(fires)
    _note(outcome, settled, since=at)
    outcome.figures["takeover"] = takeover(settled, since=at)
    outcome.figures["handed_on"] = handed_on(settled, since=at)
    return outcome


def killed_node(bed: Bed) -> Outcome:
    """`kill -9` of a node at no particular moment."""
    outcome = Outcome(database=bed.kind, drill="killed node")
    all_running(bed)
    fires = bed.fires(f"killed node {time.monotonic_ns()}")
    time.sleep(4)
    at = time.time()
    bed.nodes[HELD_NODE].process.kill()
    outcome.figures["noticed_killed"] = noticed(bed, HELD_NODE) - at
    bed.start_node(HELD_NODE)
    settled = bed.settle(fires)
    _note(outcome, settled, since=at)
    return outcome


def vanished_node(bed: Bed) -> Outcome:
    """A node's host vanishes, and comes back when its runs are long elsewhere."""
    outcome = Outcome(database=bed.kind, drill="vanished node")
    all_running(bed)
    fires = bed.fires(f"vanished {time.monotonic_ns()}")
    time.sleep(4)
    at = time.time()
    bed.hold_node(HELD_NODE)
    try:
        outcome.figures["noticed_vanished"] = noticed(bed, HELD_NODE) - at
        time.sleep(5)
    finally:
        bed.release_node(HELD_NODE)
    time.sleep(3)
    settled = bed.settle(fires)
    _note(outcome, settled, since=at)
    return outcome


def cut_off_node(bed: Bed, *, when_cut_off: str) -> Outcome:
    """A serial run goes on behind a cut cable, and the next one is due.

    `stop`: its node ends it before the next one starts elsewhere. `continue`: the next one waits
    for its end, which is told when the cable is whole again.
    """
    outcome = Outcome(database=bed.kind, drill=f"cut off, {when_cut_off}")
    all_running(bed)
    job = bed.cluster.add_job(
        f"cut off {when_cut_off} {time.monotonic_ns()}",
        "work",
        parameters={"seconds": WORK_SECONDS},
        blocking="serial",
        when_cut_off=when_cut_off,
        retry_on_lost=False,
    )
    first = bed.cluster.run_job(job)
    node = str(bed.cluster.wait_for_run(first, "running")["node_name"])
    next_run = bed.cluster.run_job(job, {"seconds": 1})
    at = time.time()
    bed.hold_node(node)
    try:
        if when_cut_off == "stop":
            bed.cluster.wait_for_run(next_run, "succeeded", timeout_seconds=40)
        else:
            time.sleep(WORK_SECONDS + 5)
            state = bed.cluster.api().get(f"/runs/{next_run}")["state"]
            if state != "queued":
                text = f"run {next_run} is {state}, though {first} keeps its place"
                outcome.problems.append(Problem(Kind.OVERLAPPED, text))
    finally:
        bed.release_node(node)
    bed.cluster.wait_for_run(next_run, "succeeded", timeout_seconds=60)
    ended = bed.cluster.wait_for_run(
        first, "succeeded", "lost", "failed", "cancelled", timeout_seconds=60
    )
    journals = read_journals(each.journal for each in bed.cluster.nodes)
    ledger = bed.reader.read([job])
    outcome.runs = len(ledger.runs)
    outcome.problems += overlaps(ledger, journals, [job])
    outcome.problems += _starts_once(ledger.runs, journals.starts)
    if (1 if when_cut_off == "stop" else 0) != (ended["state"] == "lost"):
        text = f"run {first} ended as {ended['state']}: {ended['reason']} {ended['message']}"
        outcome.problems.append(Problem(Kind.FAILED, text))
    stopped = journals.left_at[first, 1] - at
    outcome.figures["cut_off_end"] = stopped
    if when_cut_off == "stop" and stopped > LATEST_STOP_SECONDS:
        outcome.problems.append(Problem(Kind.FAILED, f"the node ended it after {stopped:.1f} s"))
    outcome.figures["next_start"] = journals.started_at[next_run, 1] - at
    bed.earlier |= {run.id for run in ledger.runs}
    all_running(bed)
    wait_until(
        lambda: not any(node.in_use for node in bed.reader.read([job]).nodes),
        what="every slot to be given back",
    )
    return outcome


def admins_running(bed: Bed) -> None:
    """Start those that are not."""
    for name in bed.admin_names:
        if not bed.admins[name].process.is_running:
            bed.start_admin(name, meet=False)


def all_running(bed: Bed) -> None:
    """Start every admin and node that does not run, and wait until they know each other."""
    admins_running(bed)
    for name in NODES:
        if not bed.nodes[name].process.is_running:
            bed.start_node(name)
    for name in bed.admin_names:
        bed.wait_for_sessions(name)


def _note(outcome: Outcome, settled: Settled, *, since: float) -> None:
    outcome.runs = len(settled.ledger.runs)
    outcome.problems += settled.problems
    outcome.figures["late"] = late(settled, since=since)


def _all_succeeded_at_once(settled: Settled) -> list[Problem]:
    """Nobody died: no run may have needed a second try."""
    found = [
        Problem(Kind.FAILED, f"run {run.id} ended as {run.state}: {run.reason} {run.message}")
        for run in settled.ledger.runs
        if run.state != "succeeded"
    ]
    for attempt in settled.ledger.attempts:
        text = f"attempt {attempt.attempt} of run {attempt.run_id} ended as {attempt.state}"
        found.append(Problem(Kind.FAILED, text))
    return found


def _starts_once(runs: Sequence[Any], starts: Any) -> list[Problem]:
    return [
        Problem(Kind.DOUBLED, f"run {run.id} started {count} times")
        for run in runs
        if (count := sum(n for (id_, _), n in starts.items() if id_ == run.id)) != 1
    ]
