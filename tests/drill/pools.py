"""A pool of two slots while an admin and a node are killed: never more is in use, nothing is stuck.

What is in use is told twice: by the sum of the table, looked at many times a second, and by the
journals of the nodes, in which each run counts from its start to its end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tests.drill.bed import Bed
from tests.drill.report import Outcome
from tests.drill.scenarios import noticed
from tests.drill.stories import all_running
from tests.e2e.fires import wait_for_ends
from tests.e2e.ledger import Journals, Kind, Problem, problems, read_journals
from tests.support.polling import wait_until

SLOTS = 2
SHARES = (1, 1, 2)  # slots that each run of a job takes
WORK_SECONDS = 0.3
LOOK_SECONDS = 0.05
AFTERMATH_SECONDS = 5.0


def shared_pool(bed: Bed) -> Outcome:
    """Three jobs share a pool; `kill -9` of an admin, and of a node that works for one of them."""
    outcome = Outcome(database=bed.kind, drill="shared pool")
    all_running(bed)
    name = f"pool-{time.monotonic_ns()}"
    api = bed.cluster.api()
    pool_id = int(api.post("/pools", {"name": name, "slots": SLOTS})["id"])
    first = round(time.time() * 1000) + 2_000
    jobs = {
        bed.cluster.add_job(
            f"{name}-{number}",
            "work",
            parameters={"seconds": WORK_SECONDS},
            pool=name,
            pool_slots=slots,
            retries=5,
            retry_delay_seconds=0.5,
            triggers=[
                {
                    "kind": "fixed_rate",
                    "every_seconds": 1,
                    "anchor_at": first + 300 * number,
                    "misfire": "fire_all",
                }
            ],
        ): slots
        for number, slots in enumerate(SHARES)
    }
    most = _most_in_use(bed, pool_id, seconds=5)
    bed.admins[bed.victim].process.kill()
    most = max(most, _most_in_use(bed, pool_id, seconds=2))
    bed.start_admin(bed.victim, meet=False)
    bed.wait_for_sessions(bed.victim)
    victim = _busy_node(bed, pool_id)
    killed_at = time.time()
    bed.nodes[victim].process.kill()
    most = max(most, _most_in_use(bed, pool_id, seconds=2))
    noticed(bed, victim)
    bed.start_node(victim)
    most = max(most, _most_in_use(bed, pool_id, seconds=AFTERMATH_SECONDS))
    for admin in bed.admins.values():
        admin.process.wait_for_http(f"{admin.url}/healthz", timeout_seconds=60)
    paused_at = round(time.time() * 1000)  # the servers run on this machine
    api = bed.cluster.api()
    for job in jobs:
        api.post(f"/jobs/{job}/pause")
    wait_for_ends(bed.reader)
    ledger = bed.reader.read(jobs)
    journals = read_journals((node.journal for node in bed.cluster.nodes), bed.earlier)
    outcome.runs = len(ledger.runs)
    outcome.problems += problems(ledger, journals, paused_at=paused_at)
    shares = {run.id: jobs[run.job_id] for run in ledger.runs}
    seen = most_at_once(journals, shares, killed_at=killed_at)
    for told, number in (("the table", most), ("the journals", seen)):
        if number > SLOTS:
            text = f"{number} of {SLOTS} slots were in use at once, by {told}"
            outcome.problems.append(Problem(Kind.OVERLAPPED, text))
    if most < SLOTS:
        text = f"the pool was never full, so that nothing is shown: {most}"
        outcome.problems.append(Problem(Kind.FAILED, text))
    outcome.problems += [
        Problem(Kind.FAILED, f"run {run.id} ended as {run.state}: {run.reason} {run.message}")
        for run in ledger.runs
        if run.state != "succeeded"
    ]
    if left := _in_use(bed, pool_id):
        outcome.problems.append(Problem(Kind.STUCK, f"{left} slots of the pool are still taken"))
    bed.earlier |= shares.keys()
    return outcome


def most_at_once(journals: Journals, shares: Mapping[int, int], *, killed_at: float) -> int:
    """The most slots that runs held at one time.

    Args:
        shares: slots by run.
        killed_at: when what has no end was killed, in seconds.
    """
    changes = []
    for key, at in journals.started_at.items():
        if key[0] in shares:
            left = journals.left_at.get(key, max(at, killed_at))
            changes += [(at, shares[key[0]]), (left, -shares[key[0]])]
    used = most = 0
    for _, change in sorted(changes):
        used += change
        most = max(most, used)
    return most


def _most_in_use(bed: Bed, pool_id: int, *, seconds: float) -> int:
    until, most = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        most = max(most, _in_use(bed, pool_id))
        time.sleep(LOOK_SECONDS)
    return most


def _in_use(bed: Bed, pool_id: int) -> int:
    (row,) = bed.reader.query(
        f"SELECT coalesce(sum(slots), 0) FROM pool_use WHERE pool_id = {pool_id}"
    )
    return int(row[0])


def _busy_node(bed: Bed, pool_id: int) -> str:
    """A node that runs something of the pool."""

    def found() -> str | None:
        rows = bed.reader.query(
            "SELECT n.name FROM pool_use u JOIN run r ON r.id = u.run_id"
            " JOIN node n ON n.id = r.node_id"
            f" WHERE u.pool_id = {pool_id} AND r.state = 'running'"
        )
        return str(rows[0].name) if rows else None

    name = wait_until(found, timeout_seconds=30, what="a node to run something of the pool")
    assert name is not None
    return name
