"""Handlers that run in processes of their own, for test_process_handlers.py."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tickwheel_executor import Ending, Fail, Retry, Run, RunCancelledError, Skip, current_run
from tickwheel_executor.process import pool

logger = logging.getLogger("shop")


def look(run: Run, month: str = "none") -> dict[str, Any]:
    """Everything that a handler may do with its run."""
    assert current_run() is run
    run.progress(0.5, "half")
    run.save_checkpoint({"done": 1})
    run.log.info("from run.log")
    logger.warning("from logging")
    print("from print")
    if month == "none":
        raise LookupError("no month")
    run.state["n"] = run.state.get("n", 0) + 1
    return {
        "pid": os.getpid(),
        "month": month,
        "parameters": run.parameters,
        "checkpoint": run.checkpoint,
        "deadline": run.deadline is not None,
        "recovering": run.recovering,
    }


async def look_async(run: Run) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"pid": os.getpid(), "same": current_run() is run}


def tells(run: Run, key: str) -> dict[str, str]:
    """Everything that it was told not to."""
    print(key)
    run.log.info("the key is %s", key)
    run.progress(0.5, key)
    run.save_checkpoint(key)
    if run.try_number > 1:
        raise ValueError(key)
    return {"key": key}


def pid() -> int:
    return os.getpid()


def says(run: Run, word: str) -> Any:
    """One of the words that a handler has for its end."""
    match word:
        case "retry":
            raise Retry("later", after=3)
        case "fail":
            raise Fail("never")
        case "skip":
            raise Skip("not today")
        case "raise":
            raise LookupError("no such customer")
        case "no json":
            return object()
        case "exit":
            sys.exit(4)
        case "os._exit":
            run.log.info("the last words")
            os._exit(3)
        case "abort":
            run.log.info("the last words")
            os.abort()
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fork":
            run.log.info("before the fork")
            if os.fork() == 0:
                run.log.info("nobody hears the child")
                return "from the child"  # returns like its parent
            return "from the parent"
        case "thread":
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
            return os.getpid()
    raise AssertionError(word)


def hogs_memory() -> int:
    return len(bytearray(2_000_000_000))


def hogs_cpu() -> None:
    while True:
        pass


def sleeps(run: Run, mark: str = "") -> str:
    """Waits for its end, and notes that it came."""
    run.log.info("asleep")
    try:
        time.sleep(600)
    except RunCancelledError:
        Path(mark).write_text("cleaned up", encoding="utf-8")
        raise
    return "slept"


def stays(run: Run) -> None:
    """Does not end when it is told to."""
    run.log.info("asleep")
    while True:
        with suppress(RunCancelledError):
            time.sleep(600)


def weighs(run: Run, **parameters: str) -> int:
    return len(parameters["text"]) + len(run.state["text"]) + len(run.checkpoint["text"])


async def sleeps_async(run: Run, mark: str) -> str:
    run.log.info("asleep")
    try:
        await asyncio.sleep(600)
    finally:
        await asyncio.to_thread(Path(mark).write_text, "cleaned up", encoding="utf-8")
    return "slept"


def hangs(run: Run, mark: str) -> None:
    """Hangs where no signal and no other thread gets through, and has a child of its own."""
    child = subprocess.Popen(["sleep", "600"])
    Path(mark).write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    run.log.info("about to hang")
    ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock


def chatters(run: Run, lines: int) -> None:
    for number in range(lines):
        run.log.info("%06d %s", number, "x" * 1000)


def started(run: Run) -> None:
    run.log.info("started in %d", os.getpid())


async def ended(run: Run, ending: Ending) -> None:
    run.log.info("ended in %d: %s", os.getpid(), ending.outcome)


class Service:
    """A picklable object with a handler."""

    def __init__(self, name: str) -> None:
        self.name = name

    def greet(self, run: Run) -> str:
        return f"{self.name} greets run {run.id}"


class SlowToLoad:
    """A handler whose module takes long to import, so to speak: as long as a file is not there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self) -> str:
        return "loaded"

    def __getstate__(self) -> str:
        return str(self.directory)

    def __setstate__(self, directory: str) -> None:
        self.directory = Path(directory)
        if pool.in_pool_process():
            (self.directory / f"loading-{os.getpid()}").touch()
            while not (self.directory / "go").exists():
                time.sleep(0.01)


def says_what_is_no_text(run: Run) -> None:
    name = os.fsdecode(b"caf\xe9")  # of a file that was made in Latin-1
    run.progress(0.5, name)
    run.log.info("sending %s", name)
    raise Retry(f"cannot send {name}", after=3)


def arguments() -> str:
    return ascii(sys.argv[1:])
