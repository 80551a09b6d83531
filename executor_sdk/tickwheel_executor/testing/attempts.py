"""Attempts that a fake admin has sent to nodes, and what the nodes report about them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tickwheel_shared.protocol import (
    Accepted,
    Checkpoint,
    LogChunk,
    Progress,
    Refused,
    Result,
    RunRequest,
    WireLine,
)

from .handler_end import HandlerEnd, LoggedLine, ReportedProgress, RunRefusedError, end_of

AboutAttempt = Accepted | Refused | Progress | Checkpoint | LogChunk | Result


@dataclass(slots=True, eq=False)
class FakeAttempt:
    """One attempt, from its request until its result and all its log lines have arrived."""

    request: RunRequest
    dispatched_to: str = ""  # key of a node
    accepted: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: asyncio.Future[HandlerEnd] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    _result: Result | None = None
    _chunks: dict[int, list[WireLine]] = field(default_factory=dict)  # by number of the first line
    _progress: list[ReportedProgress] = field(default_factory=list)
    _checkpoint: tuple[int, bytes | None] = (0, None)  # its number and its JSON

    @property
    def is_open(self) -> bool:
        """Whether neither its result nor a refusal has arrived."""
        return self._result is None and not self._ended.done()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended or was refused."""
        return self._ended.done()

    @property
    def lines(self) -> list[WireLine]:
        """The lines that have arrived, in order, as sent."""
        return [line for _, lines in sorted(self._chunks.items()) for line in lines]

    @property
    def log(self) -> list[LoggedLine]:
        """The lines that have arrived, in order."""
        return [LoggedLine(line.level.value, line.text) for line in self.lines]

    @property
    def progress(self) -> list[ReportedProgress]:
        """The reports that have arrived."""
        return list(self._progress)

    async def end(self) -> HandlerEnd:
        """Wait for the end.

        Raises:
            RunRefusedError: the node did not start it.
        """
        return await asyncio.shield(self._ended)

    def take(self, message: AboutAttempt) -> None:
        """Handle a message of the node about it."""
        if isinstance(message, Accepted):
            self.accepted.set()
        elif isinstance(message, Refused):
            self._refused(message)
        elif isinstance(message, Progress):
            self._progress.append(ReportedProgress(message.fraction, message.text))
        elif isinstance(message, Checkpoint):
            if message.seq > self._checkpoint[0]:
                self._checkpoint = (message.seq, bytes(message.data))
        elif isinstance(message, LogChunk):
            self._chunks[message.first_seq] = message.lines
        else:
            self._result = message
        self._end_if_complete()

    def _refused(self, message: Refused) -> None:
        self.accepted.set()
        if not self._ended.done():
            self._ended.set_exception(RunRefusedError(message.reason, message.message))
            self._ended.exception()  # marked as retrieved: nobody has to wait for it

    def _end_if_complete(self) -> None:
        result = self._result
        if result is None or self._ended.done():
            return
        if sum(map(len, self._chunks.values())) < result.log_lines:
            return  # the rest may come over another socket
        self._ended.set_result(
            end_of(
                self.request,
                result,
                log=self.log,
                progress=self.progress,
                checkpoint=self._checkpoint[1],
            )
        )
