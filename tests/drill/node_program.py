"""The node of the end-to-end tests, which also ends or freezes itself at a chosen place.

    python -m tests.drill.node_program --point spooled:kill9:5 --name node-1 …

accepted: the handler begins. ended: it returns, and nobody knows. spooled: its result is on disk,
and not sent. The number is the how-manieth time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from tests.e2e import node_program
from tests.e2e.node_program import Handler, Journal
from tickwheel_executor import Run
from tickwheel_executor.spool.file_spool import FileSpool
from tickwheel_shared.protocol import Result

POINTS = ("accepted", "ended", "spooled")
ACTIONS = {"kill9": signal.SIGKILL, "stop": signal.SIGSTOP}


class Point:
    """Counts, and acts once."""

    def __init__(self, text: str) -> None:
        self.name, action, times = text.split(":")
        self._action = ACTIONS[action]
        self._countdown = int(times)

    def reached(self, name: str) -> None:
        if name != self.name:
            return
        self._countdown -= 1
        if self._countdown == 0:
            print(f"kill_point.reached {name}", flush=True)
            os.kill(os.getpid(), self._action)

    def around(self, handler: Handler) -> Handler:
        """The handler, with a point at either end."""

        async def watched(run: Run) -> object:
            self.reached("accepted")
            result = await handler(run)
            self.reached("ended")
            return result

        return watched

    def watch_spool(self) -> None:
        """Let the spool's writes be a point."""
        write = FileSpool.write

        async def watched(spool: FileSpool, results: Sequence[Result]) -> None:
            await write(spool, results)
            if results:
                self.reached("spooled")

        FileSpool.write = watched  # type: ignore[method-assign, assignment]


def main() -> None:
    parser = node_program.parser()
    parser.add_argument("--point", type=Point, required=True)
    arguments = parser.parse_args()
    journal, point = Journal(arguments.journal), arguments.point
    point.watch_spool()
    node_program.executor(arguments, lambda run: journal.around(point.around(run))).run()


if __name__ == "__main__":
    main()
