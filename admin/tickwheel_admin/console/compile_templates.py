"""Have all templates compiled, by another process if that takes long.

It takes seconds of processor time. A thread of the admin would take them from its loops in the very
moment in which they catch up with what was due while no admin ran. So a process of the lowest
priority compiles and writes a file, which later starts read. The file is in the admin's directory,
where only its own user can write: it is code.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import structlog

from tickwheel_admin.console.frame.assets import Assets
from tickwheel_admin.console.frame.bytecode_cache import COMPILED
from tickwheel_admin.console.frame.rendering import Renderer
from tickwheel_admin.console.templating import new_renderer

log = structlog.get_logger(__name__)

FILE = "templates.compiled"  # in the admin's directory
LOWEST_PRIORITY = 19  # of processes
MAX_PROBLEM_BYTES = 2_000  # of what a process that fails says, its end


def read_compiled(directory: Path) -> None:
    """Take what was compiled before, which spares also what compiling macros takes at a start."""
    COMPILED.read(directory / FILE)


async def compile_templates(renderer: Renderer, directory: Path) -> None:
    """Have every template of the renderer ready, and in the file for the next start."""

    async def elsewhere() -> None:
        await _compile_in_a_process(directory)
        await asyncio.to_thread(read_compiled, directory)

    await renderer.compile_all(elsewhere)


async def _compile_in_a_process(directory: Path) -> None:
    """Write the file. If that fails, they are compiled here, and again at the next start."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        str(directory / FILE),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        start_new_session=True,  # a Ctrl-C at the admin is the admin's to handle
    )
    try:
        _, problem = await process.communicate()
    finally:
        if process.returncode is None:  # the admin stops
            process.kill()
            await asyncio.shield(process.wait())
    if process.returncode != 0:
        told = problem[-MAX_PROBLEM_BYTES:].decode(errors="replace")
        log.warning("templates.not_compiled", status=process.returncode, problem=told)


def main(file: Path) -> None:
    """Compile all templates into a file.

    Raises:
        OSError: the file cannot be written.
    """
    os.nice(LOWEST_PRIORITY)
    COMPILED.read(file)
    COMPILED.write(file)  # if it cannot be written, no seconds are spent
    renderer = new_renderer(Assets())
    for name in renderer.template_names():
        renderer.compile(name)
    COMPILED.write(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
