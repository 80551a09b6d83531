"""Messages between a node and its pool processes: JSON with a length prefix."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from tickwheel_executor.run.outcome import AttemptOutcome
from tickwheel_shared.protocol import Level, Outcome, RunRequest

_LENGTH = struct.Struct("!I")


class _Message(msgspec.Struct, tag=True, frozen=True):
    """Base of all messages."""


# --- node to process -------------------------------------------------------------------------


class Setup(_Message, frozen=True, kw_only=True):
    """The first message: the handlers of the node."""

    argv: list[bytes]  # an argument need not be text
    main_name: str | None  # of the node's `__main__`, as for `python -m`; None: not needed
    main_path: str | None
    log_level: int  # of the node's root logger
    handlers: dict[str, bytes]  # pickled functions, by name
    hooks: bytes  # pickled pair: on_started, on_ended
    traces_as: tuple[str, str] | None = None  # service and instance; None: it does not trace


class RunAssignment(_Message, frozen=True, kw_only=True):
    """Run this handler; messages follow until `RunEnd`."""

    request: RunRequest
    deadline_at: int | None
    memory_mb: int | None
    cpu_seconds: float | None
    cut_off_at: float | None  # monotonic time at which it must end by itself; None: never


class StopRun(_Message, frozen=True, kw_only=True):
    """Stop the running handler."""

    outcome: Outcome
    message: str


class LeaseRenewal(_Message, frozen=True, kw_only=True):
    """The lease was renewed: the running handler may continue until this monotonic instant."""

    cut_off_at: float


ToProcess = Setup | RunAssignment | StopRun | LeaseRenewal


# --- process to node -------------------------------------------------------------------------


class ReadySignal(_Message, frozen=True):
    """All handlers are loaded."""


class LogText(_Message, frozen=True):
    """Text for the run's log."""

    at: int  # UTC epoch ms
    level: Level
    text: str


class ProgressReport(_Message, frozen=True):
    """Progress."""

    fraction: float
    text: str


class CheckpointData(_Message, frozen=True):
    """A checkpoint."""

    data: msgspec.Raw


class RunEnd(_Message, frozen=True):
    """The handler has ended."""

    outcome: AttemptOutcome
    spent: bool  # do not reuse this process


FromProcess = ReadySignal | LogText | ProgressReport | CheckpointData | RunEnd

_encoder = msgspec.json.Encoder()


def frame_of(message: _Message) -> bytes:
    """The message as it is sent."""
    data = _encoder.encode(message)
    return _LENGTH.pack(len(data)) + data


class MessageReader:
    """Turns received bytes into messages."""

    def __init__(self, kind: Any) -> None:
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """All messages that are complete now."""
        buffer = self._buffer
        buffer += data
        found = []
        at = 0
        while len(buffer) - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(buffer, at)[0]
            if len(buffer) < end:
                break
            with memoryview(buffer) as view, view[at + _LENGTH.size : end] as part:
                found.append(self._decoder.decode(bytes(part)))
            at = end
        del buffer[:at]
        return found
