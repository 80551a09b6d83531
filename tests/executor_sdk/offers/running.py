"""Runs offers for tests, and counts processes."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tickwheel_executor import Executor
from tickwheel_executor.offers import Offer
from tickwheel_executor.offers.children.settings import Children
from tickwheel_executor.offers.command import Command
from tickwheel_executor.offers.script import Script
from tickwheel_executor.testing import FakeAdmin, FakeRun, HandlerEnd, run_handler
from tickwheel_shared.protocol import RunScript as Source

WITHIN_SECONDS = 60.0  # longer than any machine takes
CHILDREN = Children()  # one keeper for all tests that do not need their own


def source(language: str, text: str, *, signature: str = "") -> Source:
    """A script as a run carries it."""
    return Source(language, text, hashlib.sha256(text.encode()).hexdigest(), signature)


async def shell(text: str, offer: Script | None = None, **fields: Any) -> HandlerEnd:
    """Run a shell script."""
    parameters = fields.pop("parameters", {})
    offer = offer or Script(languages=("shell",), children=CHILDREN)
    return await run_handler(
        offer.run, "script", parameters=parameters, script=source("shell", text), **fields
    )


async def command(*argv: str, offer: Command | None = None, **parameters: Any) -> HandlerEnd:
    """Run a command."""
    offer = offer or Command(children=CHILDREN)
    return await run_handler(offer.run, "command", parameters={"argv": list(argv), **parameters})


@asynccontextmanager
async def offered(
    directory: Path, *offers: Offer, max_log_mb: int = 100
) -> AsyncIterator[FakeAdmin]:
    """A node with these offers at a fake admin."""
    async with FakeAdmin(within_seconds=WITHIN_SECONDS) as admin:
        executor = Executor(
            "agent",
            admins=[admin.url],
            token=admin.token,
            spool_dir=directory,
            offers=offers,
            max_log_mb=max_log_mb,
        )
        async with executor:
            await admin.node()
            yield admin


async def until(condition: Callable[[], object]) -> None:
    """Wait for it."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while not condition():  # noqa: ASYNC110 (other processes change it)
            await asyncio.sleep(0.01)


async def line(run: FakeRun, text: str) -> None:
    """Wait for this line in its log."""
    await until(lambda: any(each.text == text for each in run.log))


def processes(mark: str) -> list[str]:
    """Command lines of living processes that contain this text."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            with suppress(OSError):
                text = (directory / "cmdline").read_bytes().replace(b"\x00", b" ").decode()
                if mark in text:  # that of a zombie is empty
                    found.append(text)
    return found


def children_of(pid: int) -> list[int]:
    """Process ids of its children, where it has only one thread that starts any."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
