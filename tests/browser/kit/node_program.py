"""The node of the journey: what a person pastes from the console, with handlers to watch."""

from __future__ import annotations

import asyncio
import os

from tickwheel_executor import Executor, Run

executor = Executor(
    os.environ["JOURNEY_EXECUTOR"],
    admins=[os.environ["JOURNEY_ADMIN"]],
    token=os.environ["JOURNEY_TOKEN"],
    spool_dir=os.environ["JOURNEY_SPOOL"],
)


@executor.handler("count")
async def count(run: Run) -> dict[str, int]:
    """Writes a line every fifth of a second, so that a page can be seen to follow."""
    to = int(run.parameters.get("to", 3))
    for number in range(1, to + 1):
        run.log.info("\x1b[32mline\x1b[0m %d of %d <b>not bold</b>", number, to)
        run.progress(number / to, f"{number} of {to}")
        await asyncio.sleep(0.2)
    return {"counted": to}


@executor.handler("break")
def break_down(run: Run) -> None:
    """Fails, unless it is told not to."""
    run.log.warning("about to fail")
    if run.parameters.get("fail", True):
        raise RuntimeError("the bank did not answer")


if __name__ == "__main__":
    executor.run()
