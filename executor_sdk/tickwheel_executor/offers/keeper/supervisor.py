"""A supervisor: carries out the agent's orders, one command after another."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

from . import linux
from .command_run import CommandRun
from .wake import ChildWake
from .wire import FrameReader, frame

_CHUNK_BYTES = 256 * 1024
_FILES = 2  # that come with an order: output, errors


class AgentGoneError(Exception):
    """The agent has ended, or needs this supervisor no more: kill everything and end."""


class AgentConnection:
    """The socket to the agent.

    Args:
        file: its number.
    """

    def __init__(self, file: int) -> None:
        self._socket = socket.socket(fileno=file)
        self._reader = FrameReader()
        self._files: list[int] = []

    def fileno(self) -> int:
        """Its number, for a poll."""
        return self._socket.fileno()

    def receive(self) -> list[dict[str, Any]]:
        """Wait for bytes; returns the messages that they complete.

        Raises:
            AgentGoneError: it was closed.
        """
        try:
            data, files, _, _ = socket.recv_fds(self._socket, _CHUNK_BYTES, _FILES)
        except ConnectionError:
            raise AgentGoneError from None
        for each in files:
            os.set_inheritable(each, False)
        self._files += files
        if not data:
            raise AgentGoneError
        return self._reader.feed(data)

    def take_files(self) -> list[int]:
        """The files that came with the last order."""
        files, self._files = self._files, []
        return files

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; waits for the agent to read.

        Raises:
            AgentGoneError: it was closed.
        """
        try:
            self._socket.sendall(frame(message))
        except ConnectionError:
            raise AgentGoneError from None


class Supervisor:
    """Args: file number of the socket to the agent."""

    def __init__(self, file: int) -> None:
        self._agent = AgentConnection(file)
        self._has_subreaper = linux.become_subreaper()
        self._wake = ChildWake()

    def run(self) -> None:
        """Carry out orders until the agent has no more, or has ended.

        After each, nothing of its command is left: so the next one begins as in a new process.
        """
        with suppress(AgentGoneError):
            while True:
                messages = self._agent.receive()
                for order in messages[:1]:
                    run = CommandRun(
                        order,
                        self._agent.take_files(),
                        agent=self._agent,
                        wake=self._wake,
                        has_subreaper=self._has_subreaper,
                    )
                    self._agent.send({"report": run.carry_out(messages[1:])})
