"""The supervisor of one run: starts its command, stops it, and lets nothing of it survive."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import Any

from . import command, linux
from .run_cgroup import RunCgroup
from .tree import kill_tree, signal_tree
from .wake import ChildWake
from .wire import FrameReader, frame
from .workspace import WORK, Workspace

_WATCH_SECONDS = 1.0  # between two looks at a file that the agent wants to know of
_CHUNK_BYTES = 256 * 1024


class AgentGoneError(Exception):
    """The agent has ended: kill everything, and report to nobody."""


class Supervisor:
    """Args: the socket to the agent, and the pipes for the command's output and errors."""

    def __init__(self, control: int, output: int, errors: int) -> None:
        self._agent = socket.socket(fileno=control)
        self._files = (output, errors)
        self._reader = FrameReader()
        self._has_subreaper = linux.become_subreaper()
        self._wake = ChildWake()
        self._pid = 0  # of the command
        self._status: int | None = None  # as of `waitpid`, once it has ended
        self._kill_at: float | None = None  # it was told to end
        self._left = 0  # processes that the command left behind

    def run(self) -> None:
        """Carry out the agent's order from beginning to end."""
        with suppress(AgentGoneError):
            while not (messages := self._receive()):
                pass
            self._carry_out(messages[0], messages[1:])

    def _carry_out(self, order: dict[str, Any], more: list[dict[str, Any]]) -> None:
        report: dict[str, Any] = {}
        workspace = cgroup = None
        step = "directory"
        try:
            user = order["user"] and tuple(order["user"])
            workspace = Workspace(order["directory"], order["files"], user)
            order["cwd"] = order["cwd"] or os.path.join(order["directory"], WORK)
            step = "cgroup"
            if order["cgroup"] is not None:
                cgroup = RunCgroup(order["cgroup"]["path"], order["cgroup"]["limits"])
            step = "fork"
            self._start(order, workspace, cgroup)
            self._take(more)
            self._attend(order, workspace, cgroup)
            report = self._report(order, workspace, cgroup)
        except command.StartError as error:
            report = {"problem": error.problem}
        except OSError as error:
            report = {"problem": command.problem_of(step, error)}
        finally:
            self._kill_all(cgroup)
            if cgroup is not None:
                cgroup.remove()
            if workspace is not None and not workspace.remove(order["returned"]):
                report["left_directory"] = order["directory"]
        with suppress(OSError):
            self._agent.sendall(frame({"report": report}))

    def _start(self, order: dict[str, Any], workspace: Workspace, cgroup: RunCgroup | None) -> None:
        stdin = _input_file(order["stdin"], order["directory"])
        try:
            self._pid = command.start(order, (stdin, *self._files), cgroup)
        finally:
            for file in (stdin, *self._files):
                os.close(file)

    # --- while the command runs -------------------------------------------------------------------

    def _attend(
        self, order: dict[str, Any], workspace: Workspace, cgroup: RunCgroup | None
    ) -> None:
        """Until the command, and everything that it started, has ended."""
        poll = select.poll()
        poll.register(self._agent, select.POLLIN)
        poll.register(self._wake.file, select.POLLIN)
        watched: str | None = order["watched"]
        seen = workspace.stamp(watched) if watched else None
        while True:
            self._reap()
            if self._status is not None and self._kill_at is None:
                break
            if self._status is not None and not linux.children():
                return
            now = time.monotonic()
            if self._kill_at is not None and now >= self._kill_at:
                break
            events = poll.poll(self._wait_ms(now, is_watching=watched is not None))
            self._wake.clear()
            if any(file == self._agent.fileno() for file, _ in events):
                self._take(self._receive())
            if watched and (stamp := workspace.stamp(watched)) != seen:
                seen = stamp
                self._agent.sendall(frame({"file": watched, **(workspace.read(watched) or {})}))
        left = self._kill_all(cgroup)
        self._left = left if self._kill_at is None else 0

    def _wait_ms(self, now: float, *, is_watching: bool) -> float | None:
        waits = [_WATCH_SECONDS] if is_watching else []
        if self._kill_at is not None:
            waits.append(max(0.0, self._kill_at - now))
        return min(waits) * 1000 + 1 if waits else None

    def _receive(self) -> list[dict[str, Any]]:
        try:
            data = self._agent.recv(_CHUNK_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            raise AgentGoneError
        return self._reader.feed(data)

    def _take(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            kill_at = time.monotonic() + message["stop"]
            if self._kill_at is None and message["stop"] > 0:
                with suppress(OSError):
                    os.killpg(self._pid, signal.SIGTERM)
                signal_tree(signal.SIGTERM, but_group=self._pid)
            self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                # Looked at before it is reaped: until then its group's number belongs to it.
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if found is None:
                    return
                if found.si_pid == self._pid and not self._has_subreaper:
                    with suppress(OSError):
                        os.killpg(self._pid, signal.SIGKILL)
                pid, status = os.waitpid(found.si_pid, 0)
                self._reaped(pid, status)

    def _reaped(self, pid: int, status: int) -> None:
        if pid == self._pid:
            self._status = status

    def _kill_all(self, cgroup: RunCgroup | None) -> int:
        group = self._pid if self._status is None else 0
        return kill_tree(group, cgroup, reaped=self._reaped)

    # --- at the end -------------------------------------------------------------------------------

    def _report(
        self, order: dict[str, Any], workspace: Workspace, cgroup: RunCgroup | None
    ) -> dict[str, Any]:
        status = self._status
        code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
        found = {name: workspace.read(name) for name in order["returned"]}
        return {
            "code": code,  # negative: ended by this signal
            "left": self._left,
            "oom_kills": cgroup.oom_kills() if cgroup is not None else 0,
            "files": {name: content for name, content in found.items() if content is not None},
        }


def _input_file(text: str | None, directory: str) -> int:
    """A file to read this text from; it has no name any more."""
    if text is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    path = os.path.join(directory, "stdin")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    view = memoryview(text.encode("utf-8", "surrogateescape"))
    while view:
        view = view[os.write(file, view) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file
