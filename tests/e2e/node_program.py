"""A node that writes down every start and end of an attempt, before the SDK learns of the end.

    python node_program.py --name node-1 --journal node-1.journal --spool spool

The journal is the test's own evidence of what ran: a line per event, written by one `write`, so
that a kill leaves whole lines only.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tickwheel_executor import Executor, Run

Handler = Callable[[Run], Awaitable[object]]
Around = Callable[[Handler], Handler]


class Journal:
    """Appends "start 12 1 1700000000.123": event, run, attempt and the time in seconds."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, event: str, run: Run) -> None:
        os.write(self._file, f"{event} {run.id} {run.attempt} {time.time():.3f}\n".encode())

    def around(self, handler: Handler) -> Handler:
        """The handler with its start noted, and its end: a regular one, or a `left` one."""

        async def noted(run: Run) -> object:
            self.note("start", run)
            try:
                result = await handler(run)
            except BaseException:  # cancelled too
                self.note("left", run)
                raise
            self.note("end", run)
            return result

        return noted


async def work(run: Run) -> object:
    """Take `seconds`, log, and say which attempt it was."""
    run.log.info("run %d works", run.id)
    await asyncio.sleep(run.parameters.get("seconds", 0))
    return {"run": run.id, "attempt": run.attempt}


async def report(run: Run) -> object:
    """Log lines, progress and a result that depends on the parameters."""
    count = run.parameters["count"]
    for number in range(1, count + 1):
        run.log.info("line %d of %d – 第 %d 行", number, count, number)
        run.progress(number / count, f"{number} of {count}")
    logging.getLogger("shop").warning("all lines written")
    return {"lines": count, "note": run.parameters.get("note")}


async def fail_once(run: Run) -> object:
    """Fail at the first try."""
    if run.try_number == 1:
        raise ConnectionError("the partner does not answer")
    return {"try": run.try_number}


async def fail(run: Run) -> object:
    raise ValueError(f"no such month: {run.parameters.get('month')}")


async def wait_for_cancel(run: Run) -> object:
    run.log.info("waiting to be cancelled")
    await asyncio.sleep(3600)
    return None


async def count(run: Run) -> object:
    """Count the job's runs in its state."""
    run.state["runs"] = run.state.get("runs", 0) + 1
    return run.state["runs"]


async def steps(run: Run) -> object:
    """Take `count` steps from where an earlier try came to; with `hang`, never end the first."""
    first = run.checkpoint or 0
    for step in range(first, run.parameters["count"]):
        run.log.info("step %d", step)
        run.save_checkpoint(step + 1)
    if run.try_number == 1 and run.parameters.get("hang"):
        await asyncio.sleep(3600)
    return {"first": first}


def sync_work(run: Run) -> object:
    """In a thread."""
    time.sleep(run.parameters.get("seconds", 0))
    run.log.info("worked in a thread")
    return {"thread": True}


def chatter(run: Run) -> object:
    """Log `count` lines of `width` characters, as fast as that is let."""
    rest = "x" * (run.parameters["width"] - 8)
    for number in range(run.parameters["count"]):
        run.log.info("%07d %s", number, rest)
    return {"lines": run.parameters["count"]}


async def noop() -> None:
    """What the bench measures: everything but the work."""


def parser() -> argparse.ArgumentParser:
    """What every node of a test is told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--spool", type=Path, required=True)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--grace", type=float, default=30)
    return parser


def executor(arguments: argparse.Namespace, around: Around) -> Executor:
    """The executor with all handlers, each that keeps a journal inside of `around`."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    executor = Executor(
        name=arguments.name,
        slots=arguments.slots,
        spool_dir=arguments.spool,
        shutdown_grace_seconds=arguments.grace,
    )
    for handler in (work, report, fail_once, fail, wait_for_cancel, count, steps):
        executor.handler(handler.__name__)(around(handler))
    executor.handler("sync_work")(sync_work)
    executor.handler("chatter")(chatter)
    executor.handler("noop")(noop)
    return executor


def main() -> None:
    arguments = parser().parse_args()
    executor(arguments, Journal(arguments.journal).around).run()


if __name__ == "__main__":
    main()
