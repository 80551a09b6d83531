"""A private Redis server, for peers that need a broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess, free_port
from tests.support.servers.base import find_program


@contextmanager
def redis(directory: Path) -> Iterator[tuple[str, int] | None]:
    """Its URL and process; None where Redis is not installed.

    It writes every change to its file and fsyncs that once a second, as its documents recommend
    for data that should outlive it: a power cut may cost the last second.
    """
    program = find_program("redis-server")
    if program is None:
        yield None
        return
    port = free_port()
    command = [
        program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory),
        "--save", "", "--appendonly", "yes", "--appendfsync", "everysec",
    ]  # fmt: skip
    with ManagedProcess(command, directory / "redis.log") as process:
        wait_until(lambda: _answers(port), what="Redis to start")
        yield f"redis://127.0.0.1:{port}/0", process.pid


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            probe.sendall(b"PING\r\n")
            return probe.recv(5) == b"+PONG"
    except OSError:
        return False
