"""Break real admins, nodes and databases, and count what is lost: python -m tests.drill [--help].

Every drill starts fires at an even rate, does one bad thing, waits until all is quiet, and holds
the ledger against the journals of the nodes. Exits with 1 when a fire or a result was lost, an
attempt started twice, something is stuck, or a drill did not come to its end. The figures depend
on how busy the machine is, and do not change the exit code.
"""

from __future__ import annotations

import argparse
import base64
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.drill import alarms, failover, java, java_stories, namespaces, pools, stories, workflows
from tests.drill.bed import KINDS, REPLICATED, SERVERS, Bed, made
from tests.drill.lateness import lateness
from tests.drill.report import Outcome, print_summary
from tests.drill.scenarios import SCENARIOS, Action, Scenario, Timing, play
from tests.e2e.ledger import Kind, Problem

Drill = tuple[str, Callable[[Bed], Outcome]]

ALL_KINDS = (*KINDS, *REPLICATED)
QUICK = ("claimed × kill9",)
QUICK_TIMING = Timing(frozen=6.0, away=1.0, aftermath=6.5)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        del os.environ[name]  # a developer's own settings are not to be drilled
    # The same for all admins, which must read each other's access tokens.
    os.environ["TICKWHEEL_SECRET_KEY"] = base64.urlsafe_b64encode(os.urandom(32)).decode()
    seed = arguments.seed if arguments.seed is not None else Random().randrange(1_000_000)
    load = os.getloadavg()[0]
    outcomes: list[Outcome] = []
    complete = True
    for kind in arguments.database or ALL_KINDS:
        server = (SERVERS | REPLICATED).get(kind)
        if server is not None and not server.is_installed():
            print(f"{kind}: not installed, not drilled", flush=True)
            continue
        drills = list(_chosen(kind, arguments, Random(seed)))
        try:
            if not arguments.late:
                run(kind, drills, outcomes, keep=arguments.keep)
            if kind in KINDS and (
                arguments.late or not (arguments.quick or _is_narrowed(arguments))
            ):
                run_lateness(kind, outcomes, seconds=arguments.late_seconds)
        except KeyboardInterrupt:
            complete = False
            break
    about = {
        "seed": seed,
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load_before": round(load, 2),
        "databases": sorted({outcome.database for outcome in outcomes}),
    }
    print_summary(outcomes, about)
    if not complete:
        print("interrupted: the other drills were not played", flush=True)
    return 0 if complete and outcomes and all(outcome.is_good for outcome in outcomes) else 1


def run(
    kind: str, drills: Sequence[Drill], outcomes: list[Outcome], *, keep: Path | None = None
) -> None:
    """Play the drills one after the other; a bed in which one did not end is replaced.

    Args:
        outcomes: what each found is appended here.
    """
    waiting = list(drills)
    while waiting:
        with made(kind, keep=keep) as bed:
            while waiting:
                name, drill = waiting.pop(0)
                outcome = _played(bed, name, drill)
                outcomes.append(outcome)
                if outcome.error:
                    break
            else:
                outcomes.append(_played(bed, "everything once more", _everything))


def run_lateness(kind: str, outcomes: list[Outcome], *, seconds: float) -> None:
    """Measure how late fires are under pressure; whatever ends it, the other drills go on."""
    try:
        for outcome in lateness(kind, seconds=seconds):
            print(outcome.line(), flush=True)
            outcomes.append(outcome)
    except Exception as error:  # noqa: BLE001 (as above)
        outcome = Outcome(database=kind, drill="late")
        outcome.error = "".join(traceback.format_exception(error))[-6_000:]
        print(outcome.line(), flush=True)
        outcomes.append(outcome)


def _is_narrowed(arguments: argparse.Namespace) -> bool:
    """Whether only some drills were asked for."""
    return bool(arguments.only or arguments.point or arguments.action)


def _played(bed: Bed, name: str, drill: Callable[[Bed], Outcome]) -> Outcome:
    started = time.monotonic()
    try:
        outcome = drill(bed)
    except Exception as error:  # noqa: BLE001 (whatever it was, the other drills go on)
        outcome = Outcome(database=bed.kind, drill=name)
        outcome.error = "".join(traceback.format_exception(error))[-6_000:]
        if isinstance(error, TimeoutError):
            outcome.problems += bed.stuck_runs()
    outcome.seconds = time.monotonic() - started
    print(outcome.line(), flush=True)
    return outcome


def _everything(bed: Bed) -> Outcome:
    """All runs of all drills, and every process's own words."""
    outcome = Outcome(database=bed.kind, drill="everything once more")
    outcome.problems += bed.all_problems()
    outcome.problems += [Problem(Kind.FAILED, f"Traceback in {log}") for log in bed.tracebacks()]
    return outcome


def _chosen(kind: str, arguments: argparse.Namespace, random: Random) -> Iterator[Drill]:
    timing = QUICK_TIMING if arguments.quick else Timing()
    wanted = (*arguments.only,)
    chosen: Iterable[Drill]
    if kind in REPLICATED:
        chosen = [("killed primary", failover.killed_primary)]  # there is one to kill
    else:
        chosen = (*_stories(kind, arguments), *_scenarios(kind, arguments, random, timing))
    for name, drill in chosen:
        if not wanted or any(text in name for text in wanted):
            yield name, drill


def _stories(kind: str, arguments: argparse.Namespace) -> Iterator[Drill]:
    if arguments.quick:
        return
    yield "rolling restart", partial(stories.rolling_restart, rounds=10)
    if kind != "sqlite":  # these need a second admin
        yield "flapping socket", stories.flapping_socket
        yield "slow network", stories.slow_network
        for _ in range(arguments.kills):
            yield "killed admin", stories.killed_admin
    for _ in range(arguments.kills):
        yield "killed node", stories.killed_node
    for fault in workflows.FAULTS:
        yield f"workflows, {fault}", partial(workflows.workflows, fault=fault)
    yield "shared pool", pools.shared_pool
    yield "vanished node", stories.vanished_node
    yield "killed senders of alarms", alarms.killed_senders
    if reason := namespaces.why_not():
        print(f"partitioned node: not drilled, no network namespace: {reason}", flush=True)
    else:
        yield "partitioned node", namespaces.partitioned_node
    for choice in ("stop", "continue"):
        yield f"cut off, {choice}", partial(stories.cut_off_node, when_cut_off=choice)
    if reason := java.CLIENT.missing():
        print(f"xxl: not drilled: {reason}", flush=True)
        return
    yield from java_stories.STORIES.items()


def _scenarios(
    kind: str, arguments: argparse.Namespace, random: Random, timing: Timing
) -> Iterator[Drill]:
    for scenario in SCENARIOS:
        own = Random(random.getrandbits(64))  # the same for a scenario, whichever are chosen
        if not scenario.suits(kind) or not _is_wanted(scenario, arguments):
            continue
        yield scenario.name, partial(play, scenario=scenario, random=own, timing=timing)


def _is_wanted(scenario: Scenario, arguments: argparse.Namespace) -> bool:
    if arguments.quick and not (arguments.point or arguments.action):
        return scenario.name in QUICK
    return (not arguments.point or scenario.point in arguments.point) and (
        not arguments.action or scenario.action in arguments.action
    )


def _parse(argv: Sequence[str] | None) -> Any:
    points = list(dict.fromkeys(scenario.point for scenario in SCENARIOS))
    parser = argparse.ArgumentParser(
        prog="python -m tests.drill",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    many = partial(parser.add_argument, action="append", default=[])
    many("--database", choices=ALL_KINDS, help="default: all")
    many("--point", choices=points, help="only these fault points")
    many("--action", choices=list(Action), help="only these actions")
    many("--only", metavar="TEXT", help="only drills with this in their name")
    parser.add_argument(
        "--kills", type=int, default=5, help="of an admin and of a node (default 5)"
    )
    parser.add_argument("--seed", type=int, help="chooses when a point acts (default: any)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs and journals there")
    parser.add_argument("--late", action="store_true", help="only how late fires get")
    parser.add_argument(
        "--late-seconds", type=float, default=30, help="of each kind of pressure (default 30)"
    )
    parser.add_argument("--quick", action="store_true", help="a few of them, in a minute")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
