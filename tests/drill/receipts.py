"""Kills handlers at every statement, and counts the effects: `python -m tests.drill.receipts URL`.

The driver plays the admin: it forks a process for each attempt, and delivers a run again until an
attempt has reported its result. Each process counts the points that it passes (before and after
each statement, begin and commit, around handler and report) and kills itself with SIGKILL at one of
them; or the driver kills it at any instant. At the end of each run the money must have moved once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa

from tests.executor_sdk.receipts.bank import Bank, move
from tickwheel_executor import Executor, Run
from tickwheel_executor.testing import run_handler

MAX_ATTEMPTS = 50


@dataclass(slots=True)
class Tally:
    """What became of the runs."""

    runs: int = 0
    kills: int = 0
    kills_at: dict[str, int] = field(default_factory=dict)
    doubled: int = 0  # the money moved more than once
    lost: int = 0  # it did not move
    torn: int = 0  # it left one account and did not reach the other one
    unreported: int = 0  # no attempt could report
    failed: int = 0  # attempts that ended otherwise than well
    settled: int = 0  # runs that ended because of their receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is played."""

    receipts: bool  # the handler writes one
    checks: bool  # and executor.receipts() looks for it first
    redelivers: bool  # a run whose attempt was lost is delivered again


class Fuse:
    """Kills this process at a point."""

    def __init__(self, kill_at: int, told: int) -> None:
        self._kill_at = kill_at
        self._told = told  # a pipe: which point it was
        self.passed = 0

    def point(self, name: str) -> None:
        if self.passed == self._kill_at:
            os.write(self._told, f"!{name}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1


def armed(engine: sa.Engine, fuse: Fuse) -> None:
    """Let everything that is sent on this engine pass the fuse."""

    def before(*about: Any) -> None:
        fuse.point(f"before {_short(about[2])}")

    def after(*about: Any) -> None:
        fuse.point(f"after {_short(about[2])}")

    sa.event.listen(engine, "before_cursor_execute", before)
    sa.event.listen(engine, "after_cursor_execute", after)
    sa.event.listen(engine, "begin", lambda connection: fuse.point("begin"))
    commit = engine.dialect.do_commit

    def do_commit(connection: Any) -> None:
        fuse.point("before commit")
        commit(connection)
        fuse.point("after commit")

    engine.dialect.do_commit = do_commit  # type: ignore[method-assign]


def _short(statement: str) -> str:
    words = statement.split()
    verb = words[0].upper()
    return f"{verb} {'receipt' if 'tickwheel_receipt' in statement else 'account'}"


def attempt(url: str, rules: Rules, number: int, run_id: int, kill_at: int, pipe: int) -> None:
    """One attempt, in a process of its own."""
    fuse = Fuse(kill_at, pipe)
    bank = Bank(url)
    armed(bank.engine, fuse)
    executor = Executor("bank", admins=["http://localhost:8500"], token="t" * 40)
    if rules.receipts and rules.checks:
        executor.receipts(bank.engine)

    @executor.handler("transfer")
    def transfer(run: Run) -> Any:
        fuse.point("handler called")
        with bank.engine.begin() as connection:
            if not rules.receipts:
                move(connection)
                return "moved"
            receipt = run.receipt(connection)
            move(connection)
            return receipt.save_result("moved")

    @executor.on_ended
    def ended(*_: Any) -> None:
        fuse.point("handler returned")

    end = run_handler(
        executor, "transfer", run_id=run_id, attempt=number, recovering=number > 1
    ).result()
    fuse.point("before report")
    report = {"outcome": end.outcome, "result": end.result, "message": end.message}
    os.write(pipe, f"{json.dumps(report | {'points': fuse.passed})}\n".encode())
    fuse.point("after report")


def forked(*about: Any, kill_after: float | None) -> tuple[str, dict[str, Any] | None]:
    """Run `attempt` in a process; returns where it was killed, and what it reported."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            attempt(*about, writing)
        finally:
            os._exit(0)
    os.close(writing)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading) as lines:
        said = lines.read().splitlines()
    _, status = os.waitpid(pid, 0)
    killed = next((line[1:] for line in said if line.startswith("!")), "")
    if not killed and os.WIFSIGNALED(status):
        killed = "any instant"
    return killed, next((json.loads(line) for line in said if line.startswith("{")), None)


def play(url: str, rules: Rules, *, kills: int, seed: int, first_run: int) -> Tally:
    """Play runs until every point had its turn, and so many processes were killed.

    `first_run` is the id of the first one.
    """
    bank, tally, draw = Bank(url), Tally(), random.Random(seed)
    started = time.monotonic()
    _, report = forked(url, rules, 1, first_run, 10**9, kill_after=None)
    seconds = time.monotonic() - started
    points = 1 + (report or {"points": 12})["points"]
    run_id, next_point = first_run, 0
    while tally.kills < kills or next_point < points:
        run_id += 1
        tally.runs += 1
        before = bank.moves()
        ends: dict[str, Any] | None = None
        for number in range(1, MAX_ATTEMPTS):
            # The first attempt is killed at each point in turn, once each; then here and there.
            kill_at, kill_after = 10**9, None
            if number == 1 and (next_point < points or draw.random() < 0.75):
                kill_at, next_point = next_point % points, next_point + 1
            elif number == 1 or draw.random() < 0.3:
                kill_at = draw.randrange(points + 6)
                if draw.random() < 0.5:
                    kill_at, kill_after = 10**9, draw.uniform(0, seconds * 1.2)
            killed, ends = forked(url, rules, number, run_id, kill_at, kill_after=kill_after)
            if killed:
                tally.kills += 1
                tally.kills_at[killed] = tally.kills_at.get(killed, 0) + 1
            if ends is not None and ends["outcome"] == "succeeded":
                break
            tally.failed += ends is not None
            if not rules.redelivers:
                break
        count(tally, before, bank.moves(), ends)
    return tally


def count(
    tally: Tally, before: tuple[int, int], after: tuple[int, int], end: dict[str, Any] | None
) -> None:
    left, came = (now - then for now, then in zip(after, before, strict=True))
    tally.torn += left != came
    tally.doubled += left > 1
    tally.lost += left == 0
    tally.unreported += end is None
    tally.settled += end is not None and end["message"].startswith("settled by its receipt")


GAMES = {
    "receipts": Rules(receipts=True, checks=False, redelivers=True),
    "receipts, looked for first": Rules(receipts=True, checks=True, redelivers=True),
    "no receipts, delivered again": Rules(receipts=False, checks=False, redelivers=True),
    "no receipts, not delivered again": Rules(receipts=False, checks=False, redelivers=False),
}


def main() -> int:
    """Play all games; exits with 1 if a receipt did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="an empty database, as a URL of SQLAlchemy")
    parser.add_argument("--kills", type=int, default=100, help="with receipts; a quarter without")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="only the two games that show most")
    args = parser.parse_args()
    Bank(args.url).open()
    report: dict[str, Any] = {}
    broken = False
    for game, (name, rules) in enumerate(GAMES.items(), 1):
        if args.short and not (rules.checks or (rules.redelivers and not rules.receipts)):
            continue
        kills = args.kills // 2 if rules.receipts else args.kills // 4
        tally = play(args.url, rules, kills=kills, seed=args.seed, first_run=game * 1_000_000)
        report[name] = asdict(tally)
        broken |= rules.receipts and bool(
            tally.doubled or tally.lost or tally.torn or tally.unreported
        )
    json.dump(report, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
