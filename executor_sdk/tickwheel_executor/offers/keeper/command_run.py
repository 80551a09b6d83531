"""One command under its supervisor: started, watched, stopped; nothing of it survives."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from typing import Any, Protocol

from . import command, linux
from .run_cgroup import RunCgroup
from .tree import kill_tree, signal_tree
from .wake import ChildWake
from .workspace import WORK, Workspace

_WATCH_SECONDS = 1.0  # between two looks at a file that the agent wants to know of


class Agent(Protocol):
    """Who gave the order; both calls raise when it has gone."""

    def fileno(self) -> int:
        """Of its socket."""

    def receive(self) -> list[dict[str, Any]]:
        """Its next messages."""

    def send(self, message: dict[str, Any]) -> None:
        """Send it one."""


class CommandRun:
    """Args: what to start, and the pipes for output and errors, which it closes."""

    def __init__(
        self,
        order: dict[str, Any],
        files: list[int],
        *,
        agent: Agent,
        wake: ChildWake,
        has_subreaper: bool,
    ) -> None:
        self._order = order
        self._files = files
        self._agent = agent
        self._wake = wake
        self._has_subreaper = has_subreaper
        self._workspace: Workspace | None = None
        self._cgroup: RunCgroup | None = None
        self._pid = 0  # of the command
        self._status: int | None = None  # as of `waitpid`, once it has ended
        self._kill_at: float | None = None  # it was told to end
        self._left = 0  # processes that the command left behind

    def carry_out(self, more: list[dict[str, Any]]) -> dict[str, Any]:
        """From start to end, whatever happens; returns the report.

        Args:
            more: messages that came with the order.
        """
        report: dict[str, Any] = {}
        step = "directory"
        try:
            order = self._order
            user = order["user"] and tuple(order["user"])
            self._workspace = workspace = Workspace(order["directory"], order["files"], user)
            order["cwd"] = order["cwd"] or os.path.join(order["directory"], WORK)
            step = "cgroup"
            if order["cgroup"] is not None:
                self._cgroup = RunCgroup(order["cgroup"]["path"], order["cgroup"]["limits"])
            # Before the start: what the command writes at once has changed as well.
            seen = workspace.stamp(order["watched"]) if order["watched"] else None
            step = "fork"
            self._start()
            self._take(more)
            self._attend(workspace, seen)
            step = "report"
            report = self._report(workspace)
        except command.StartError as error:
            report = {"problem": error.problem}
        except OSError as error:
            report = {"problem": command.problem_of(step, error)}
        finally:
            self._clean_up(report)
        return report

    def _start(self) -> None:
        stdin = _input_file(self._order["stdin"], self._order["directory"])
        try:
            output, errors = self._files
            self._pid = command.start(self._order, (stdin, output, errors), self._cgroup)
        finally:
            os.close(stdin)
            self._close_files()

    def _close_files(self) -> None:
        files, self._files = self._files, []
        for file in files:
            os.close(file)

    # --- while the command runs -------------------------------------------------------------------

    def _attend(self, workspace: Workspace, seen: tuple[int, int, int] | None) -> None:
        """Until the command, and everything that it started, has ended.

        Args:
            seen: the stamp of the watched file when the command was started.
        """
        poll = select.poll()
        poll.register(self._agent, select.POLLIN)
        poll.register(self._wake.file, select.POLLIN)
        watched: str | None = self._order["watched"]
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
            if any(file != self._wake.file for file, _ in events):
                self._take(self._agent.receive())
            if watched and (stamp := workspace.stamp(watched)) != seen:
                seen = stamp
                self._agent.send({"file": watched, **(workspace.read(watched) or {})})
        left = self._kill_all()
        self._left = left if self._kill_at is None else 0

    def _wait_ms(self, now: float, *, is_watching: bool) -> float | None:
        waits = [_WATCH_SECONDS] if is_watching else []
        if self._kill_at is not None:
            waits.append(max(0.0, self._kill_at - now))
        return min(waits) * 1000 + 1 if waits else None

    def _take(self, messages: list[dict[str, Any]]) -> None:
        """Requests to stop: each with the seconds until everything is killed."""
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

    def _kill_all(self) -> int:
        group = self._pid if self._status is None else 0
        return kill_tree(group, self._cgroup, reaped=self._reaped)

    # --- at the end -------------------------------------------------------------------------------

    def _report(self, workspace: Workspace) -> dict[str, Any]:
        status = self._status
        code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
        found = {name: workspace.read(name) for name in self._order["returned"]}
        return {
            "code": code,  # negative: ended by this signal
            "left": self._left,
            "subreaper": self._has_subreaper,
            "oom_kills": self._cgroup.oom_kills() if self._cgroup is not None else 0,
            "files": {name: content for name, content in found.items() if content is not None},
        }

    def _clean_up(self, report: dict[str, Any]) -> None:
        self._close_files()
        self._kill_all()
        if self._cgroup is not None:
            self._cgroup.remove()
        if self._workspace is not None and not self._workspace.remove(self._order["returned"]):
            report["left_directory"] = self._order["directory"]


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
