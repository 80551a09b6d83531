"""Have all templates compiled, by another process if that takes long.

It takes seconds of processor time. A thread of the admin would take them from its loops in the very
moment in which they catch up with what was due while no admin ran. So a process of the lowest
priority compiles, and the admin keeps the result in a file for its next start. The file is in the
admin's directory, where only its own user can write: it is code.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import BinaryIO

import structlog

from tickwheel_admin.console.frame.assets import Assets
from tickwheel_admin.console.frame.bytecode_cache import COMPILED
from tickwheel_admin.console.frame.rendering import Renderer
from tickwheel_admin.console.templating import new_renderer
from tickwheel_admin.services.workers.processes import (
    WorkerFailed,
    WorkerProcesses,
    WorkerTooSlow,
)

log = structlog.get_logger(__name__)

FILE = "templates.compiled"  # in the admin's directory
LOWEST_PRIORITY = 19  # of processes
SECONDS = 600.0  # beside other work, at the lowest priority


def read_compiled(directory: Path) -> None:
    """Take what was compiled before, which spares also what compiling macros takes at a start."""
    COMPILED.read(directory / FILE)


async def compile_templates(renderer: Renderer, directory: Path) -> None:
    """Have every template of the renderer ready, and in the file for the next start."""

    async def elsewhere() -> None:
        compiled = await _compile_in_a_process()
        await asyncio.to_thread(_take, compiled, directory)

    await renderer.compile_all(elsewhere)


async def _compile_in_a_process() -> bytes:
    """What it says; nothing if it fails: they are compiled here then, and at each start anew."""
    workers = WorkerProcesses(seconds=SECONDS)
    try:
        return await workers.ask(__name__, text=b"")
    except WorkerTooSlow:
        log.warning("templates.not_compiled", status=None, problem="it took too long")
    except WorkerFailed as error:
        log.warning("templates.not_compiled", status=error.status, problem=error.problem)
    return b""


def _take(compiled: bytes, directory: Path) -> None:
    if not COMPILED.take(compiled):
        return
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        COMPILED.write(directory / FILE)
    except OSError as error:  # a container may have no place to write, with a database elsewhere
        log.info("templates.not_kept", reason=str(error))


def main(output: BinaryIO) -> None:
    """Compile all templates, and write them where the admin reads."""
    os.nice(LOWEST_PRIORITY)
    renderer = new_renderer(Assets())
    for name in renderer.template_names():
        renderer.compile(name)
    output.write(COMPILED.to_bytes())


if __name__ == "__main__":
    main(sys.stdout.buffer)
