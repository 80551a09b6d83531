"""The process that does what nobody can bound beforehand; see `process`.

It reads requests from the socket it was started with, and answers each one. It ends with the
socket, or when a piece of work outlives the admin that would have ended it.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.services.calendars.imports import CalendarFormat, ImportedDays, read_days

MAX_MEMORY_BYTES = 1024**3  # of addresses; what is in use is far less
MAX_WORK_SECONDS = 30  # of one piece, should nobody be there to end it
MAX_MESSAGE_BYTES = 64 * 1024**2
NICE = 10  # the admin comes first


class WorkRequest(msgspec.Struct, kw_only=True):
    """What is to be done."""

    task: str
    arguments: dict[str, Any]


class WorkAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What became of it; with `at`, another answer follows."""

    at: str | None = None  # what it is about to look at
    done: msgspec.Raw = msgspec.Raw(b"null")
    refused: list[dict[str, Any]] | None = None  # problems of an InvalidInput
    failed: str | None = None  # any other error


def import_days(
    at: Callable[[str], None],
    *,
    text: str,
    format: str,  # noqa: A002 - what the field of the form is called
    now: int,
) -> ImportedDays:
    """As `imports.read_days`."""
    return read_days(text, CalendarFormat(format), now=now, at=at)


TASKS: dict[str, Callable[..., Any]] = {"import_days": import_days}


def send(peer: socket.socket, message: bytes) -> None:
    """One message: its length in four bytes, then itself."""
    peer.sendall(len(message).to_bytes(4, "big") + message)


def receive(peer: socket.socket) -> bytes:
    """The next message; raises EOFError when the other side has closed."""
    return _exactly(peer, int.from_bytes(_exactly(peer, 4), "big"))


def _exactly(peer: socket.socket, count: int) -> bytes:
    if count > MAX_MESSAGE_BYTES:
        raise EOFError("a message is longer than anything that is sent here")
    found = bytearray()
    while len(found) < count:
        part = peer.recv(min(count - len(found), 1024**2))
        if not part:
            raise EOFError("closed")
        found += part
    return bytes(found)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    os.nice(NICE)
    with socket.socket(fileno=int(sys.argv[1])) as peer:
        send(peer, b"{}")
        while True:
            try:
                request = msgspec.json.decode(receive(peer), type=WorkRequest)
            except EOFError:
                return
            signal.alarm(MAX_WORK_SECONDS)
            answer = _answer(peer, request)
            signal.alarm(0)
            send(peer, msgspec.json.encode(answer))


def _answer(peer: socket.socket, request: WorkRequest) -> WorkAnswer:
    def at(place: str) -> None:
        send(peer, msgspec.json.encode(WorkAnswer(at=place)))

    try:
        done = TASKS[request.task](at, **request.arguments)
        return WorkAnswer(done=msgspec.Raw(msgspec.json.encode(done)))
    except InvalidInput as error:
        return WorkAnswer(refused=[msgspec.to_builtins(problem) for problem in error.problems])
    except Exception as error:  # noqa: BLE001 - whatever it was, it is told to who asked
        return WorkAnswer(failed=f"{type(error).__name__}: {error}"[:500])


if __name__ == "__main__":
    main()
