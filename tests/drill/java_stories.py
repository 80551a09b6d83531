"""Executors of XXL-JOB in Java: killed, restarted, frozen, cut off, and their admin killed."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.drill.bed import Bed
from tests.drill.java import JavaExecutor, JavaProcess
from tests.drill.report import Outcome
from tests.drill.stories import admins_running
from tests.e2e.ledger import Kind, Problem
from tests.support.polling import wait_until

AWAY_SECONDS = 25.0  # longer than a lease
QUIET_SECONDS = 6.0  # fires go on so long before the checks
LONG = "40"  # seconds of a run that is lost with its process
LOST_SECONDS = 60.0


def killed(bed: Bed) -> Outcome:
    """`kill -9` of one process; another one starts there when its runs are elsewhere."""
    return _played(bed, "xxl-kill9", _kill)


def restarted(bed: Bed) -> Outcome:
    """`kill -9`, and at once another process at the same address, within the lease."""
    return _played(bed, "xxl-restart", _restart)


def frozen(bed: Bed) -> Outcome:
    """SIGSTOP for longer than a lease, then it goes on where it was."""
    return _played(bed, "xxl-freeze", _freeze)


def cut_off(bed: Bed) -> Outcome:
    """Nothing passes between one process and all admins for longer than a lease."""
    return _played(bed, "xxl-cut", _cut, is_proxied=True)


def killed_admin(bed: Bed) -> Outcome:
    """`kill -9` of an admin that waits for answers to its calls."""
    return _played(bed, "xxl-admin", _kill_admin, is_proxied=True)


STORIES = {
    "xxl-kill9": killed,
    "xxl-restart": restarted,
    "xxl-freeze": frozen,
    "xxl-cut": cut_off,
    "xxl-admin": killed_admin,
}

_Act = Callable[[Bed, JavaExecutor, Outcome], None]


def _played(bed: Bed, name: str, act: _Act, *, is_proxied: bool = False) -> Outcome:
    outcome = Outcome(database=bed.kind, drill=name)
    admins_running(bed)
    with JavaExecutor(bed, name, is_proxied=is_proxied) as executor:
        executor.fire()
        time.sleep(5)
        act(bed, executor, outcome)
        time.sleep(QUIET_SECONDS)
        ledger, found = executor.settle()
        outcome.runs = len(ledger.runs)
        outcome.problems += found
        began = {key[0] for each in executor.processes for key in each.started()}
        if len(began) < 50:
            outcome.problems.append(Problem(Kind.FAILED, f"only {len(began)} runs began"))
    bed.earlier |= {run.id for run in ledger.runs}
    return outcome


def _kill(bed: Bed, executor: JavaExecutor, outcome: Outcome) -> None:
    run, process = _long_run(bed, executor)
    at = time.time()
    process.kill()
    outcome.figures["xxl_killed_lost"] = _lost(bed, run) - at
    process.start()
    executor.wait_for_nodes(2)


def _restart(bed: Bed, executor: JavaExecutor, outcome: Outcome) -> None:
    run, process = _long_run(bed, executor)
    at = time.time()
    process.kill()
    process.start()
    outcome.figures["xxl_restart_up"] = time.time() - at
    outcome.figures["xxl_restart_lost"] = _lost(bed, run) - at


def _freeze(bed: Bed, executor: JavaExecutor, outcome: Outcome) -> None:
    process = executor.processes[0]
    process.freeze()
    try:
        time.sleep(AWAY_SECONDS)
    finally:
        process.thaw()


def _cut(bed: Bed, executor: JavaExecutor, outcome: Outcome) -> None:
    process = executor.processes[0]
    process.hold()
    try:
        time.sleep(AWAY_SECONDS)
    finally:
        process.release()


def _kill_admin(bed: Bed, executor: JavaExecutor, outcome: Outcome) -> None:
    """The answers of one process are lost; the admin that serves it is killed with calls open."""
    process = executor.processes[0]
    proxy = process.proxies[0]
    victim = _admin_of(bed, process)
    before = len(process.started())
    proxy.lose_answers()
    wait_until(lambda: len(process.started()) > before + 3, what="calls to arrive")
    at = time.time()
    bed.admins[victim].process.kill()
    proxy.keep_answers()
    if bed.server is None:
        bed.start_admin(victim, meet=False)  # nobody else takes over
    count = len(process.started())
    wait_until(
        lambda: len(process.started()) > count + 3,
        timeout_seconds=60,
        what="calls of another admin to arrive",
    )
    outcome.figures["xxl_takeover"] = time.time() - at
    admins_running(bed)


def _long_run(bed: Bed, executor: JavaExecutor) -> tuple[int, JavaProcess]:
    """A run that goes on for long and is not tried again, and the process that has it."""
    job = executor.add_job("long", LONG, retry_on_lost=False)
    run = bed.cluster.run_job(job, {"param": LONG})

    def has_it() -> JavaProcess | None:
        found = [each for each in executor.processes if executor.runs_of(each, {run})]
        return found[0] if found else None

    process = wait_until(has_it, timeout_seconds=20, what="the long run to begin")
    bed.cluster.wait_for_run(run, "running")
    assert process is not None
    return run, process


def _lost(bed: Bed, run: int) -> float:
    """When a run was lost."""
    bed.cluster.wait_for_run(run, "lost", timeout_seconds=LOST_SECONDS)
    row = bed.reader.query(f"SELECT ended_at FROM run WHERE id = {run}")[0]
    return float(row.ended_at) / 1000


def _admin_of(bed: Bed, process: JavaProcess) -> str:
    """The admin that serves this process, by its log."""
    wanted = f'"{process.address}"'

    def serving() -> str | None:
        for name, admin in bed.admins.items():
            lines = admin.process.output().splitlines()
            if any("xxl.node_admitted" in line and wanted in line for line in lines):
                return name
        return None

    found = wait_until(serving, timeout_seconds=30, what=f"an admin to serve {process.address}")
    assert found is not None
    return found
