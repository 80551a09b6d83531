"""What is done to an admin or a node at a fault point, and what must have become of every fire."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from random import Random

from tests.drill.bed import Bed
from tests.drill.measure import handed_on, late, takeover
from tests.drill.node_program import POINTS as NODE_POINTS
from tests.drill.report import Outcome
from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess
from tickwheel_admin.engine.fault_points import POINTS as ADMIN_POINTS

REACHED = r"^.*kill_point\.reached.*$"
REACH_SECONDS = 40.0
VICTIM = "node-3"


class Action(StrEnum):
    """What happens to a process when it has come to its point."""

    KILL9 = "kill9"
    STOP = "stop"  # frozen for a while, then it goes on where it was
    CUT = "cut"  # all its connections are reset
    ANSWER = "answer"  # the database does what it is told, and its answer is lost
    DATABASE = "database"  # killed with -9, away for 2 s


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long things last, in seconds."""

    frozen: float = 30.0
    away: float = 2.0  # the database
    aftermath: float = 8.0  # fires go on so long before the checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One point and one action."""

    point: str
    action: Action

    @property
    def name(self) -> str:
        return f"{self.point} × {self.action}"

    @property
    def is_of_node(self) -> bool:
        return self.point in NODE_POINTS

    def suits(self, kind: str) -> bool:
        """Whether it can be played on a database of this kind."""
        needs_server = self.action in (Action.ANSWER, Action.DATABASE)
        if needs_server and (kind == "sqlite" or self.is_of_node):
            return False
        # Elsewhere the answer of no transaction is on its way.
        return self.action is not Action.ANSWER or self.point in (
            "planning",
            "claiming",
            "recording",
        )


SCENARIOS = tuple(
    Scenario(point=point, action=action)
    for point in (*ADMIN_POINTS, *NODE_POINTS)
    for action in Action
)


def play(bed: Bed, scenario: Scenario, *, random: Random, timing: Timing) -> Outcome:
    """Arm the point, let it come, act, wait, and check every fire."""
    outcome = Outcome(database=bed.kind, drill=scenario.name)
    armed = "kill9" if scenario.action is Action.KILL9 else "stop"
    # Some seconds after the fires have begun; a node sees a third of them.
    times = random.randint(10, 40) if scenario.is_of_node else random.randint(40, 100)
    point = f"{scenario.point}:{armed}:{times}"
    process = _start_armed(bed, scenario, point)
    # What a frozen node runs goes on when it wakes, also if it was taken for dead meanwhile.
    frozen_node = scenario.is_of_node and scenario.action is Action.STOP
    fires = bed.fires(f"{scenario.name} {time.monotonic_ns()}", serial=not frozen_node)
    line = process.wait_for_line(REACHED, timeout_seconds=REACH_SECONDS)
    if armed == "stop":
        wait_until(lambda: _is_frozen(process), what=f"{scenario.name} to freeze")
    at = time.time() if scenario.is_of_node else _logged_at(line[0])
    (_act_on_node if scenario.is_of_node else _act_on_admin)(
        bed, scenario.action, process, outcome, at, timing
    )
    settled = bed.settle(fires)
    outcome.problems += settled.problems
    outcome.runs = len(settled.ledger.runs)
    outcome.figures["late"] = late(settled, since=at)
    if scenario.action is Action.KILL9 and not scenario.is_of_node and bed.server is not None:
        outcome.figures["takeover"] = takeover(settled, since=at)
        outcome.figures["handed_on"] = handed_on(settled, since=at)
    return outcome


def _start_armed(bed: Bed, scenario: Scenario, point: str) -> ManagedProcess:
    if not scenario.is_of_node:
        if not bed.admins["admin-1"].process.is_running:
            bed.start_admin("admin-1")
        return bed.start_admin(bed.victim, point=point).process
    for name in bed.admin_names:
        if not bed.admins[name].process.is_running:
            bed.start_admin(name)
    old = bed.nodes[VICTIM].process
    if old.is_running:
        assert old.stop() == 0, f"{VICTIM} did not end well: {old.log}"
    process = bed.start_node(VICTIM, point=point).process
    for name in bed.admin_names:
        bed.wait_for_sessions(name)
    return process


def _act_on_admin(
    bed: Bed, action: Action, process: ManagedProcess, outcome: Outcome, at: float, timing: Timing
) -> None:
    match action:
        case Action.KILL9:
            assert process.wait() == -signal.SIGKILL
            if bed.server is None:
                bed.start_admin(bed.victim)  # nobody else takes over
        case Action.STOP:
            time.sleep(timing.frozen)
            process.send_signal(signal.SIGCONT)
        case Action.CUT:
            bed.cut(bed.victim)
            process.send_signal(signal.SIGCONT)
        case Action.ANSWER:
            link = bed.database_links[bed.victim]
            link.lose_answers()
            process.send_signal(signal.SIGCONT)
            time.sleep(0.5)
            link.keep_answers()
        case Action.DATABASE:
            bed.crash_database()
            process.send_signal(signal.SIGCONT)
            time.sleep(timing.away)
            bed.start_database()
    time.sleep(timing.aftermath)


def _act_on_node(
    bed: Bed, action: Action, process: ManagedProcess, outcome: Outcome, at: float, timing: Timing
) -> None:
    match action:
        case Action.KILL9:
            assert process.wait() == -signal.SIGKILL
            outcome.figures["noticed_killed"] = noticed(bed, VICTIM) - at
            bed.start_node(VICTIM)
        case Action.STOP:
            if timing.frozen > 17:
                outcome.figures["noticed_vanished"] = noticed(bed, VICTIM) - at
            time.sleep(max(0.0, at + timing.frozen - time.time()))
            process.send_signal(signal.SIGCONT)
        case Action.CUT:
            bed.cut_node(VICTIM)
            process.send_signal(signal.SIGCONT)
        case _:
            raise AssertionError(f"{action} is nothing for a node")
    time.sleep(timing.aftermath / 2)


def noticed(bed: Bed, name: str) -> float:
    """When the newest node of this name was declared dead, in seconds; waits for it."""
    newest = (
        f"SELECT state, ended_at FROM node WHERE name = '{name}'"
        " ORDER BY connected_at DESC, id DESC LIMIT 1"
    )

    def ended_at() -> float | None:
        row = bed.reader.query(newest)[0]
        return row.ended_at / 1000 if row.state == "dead" else None

    at = wait_until(ended_at, timeout_seconds=60, what=f"{name} to be declared dead")
    assert at is not None
    return at


def _logged_at(line: str) -> float:
    start = line.index('"timestamp": "') + len('"timestamp": "')
    return datetime.fromisoformat(line[start : line.index('"', start)]).timestamp()


def _is_frozen(process: ManagedProcess) -> bool:
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"
