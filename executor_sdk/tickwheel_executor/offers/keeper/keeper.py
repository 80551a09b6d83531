"""The keeper: forks a supervisor for each run, and stays until the last one has ended."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress

from . import linux
from .supervisor import Supervisor
from .wake import ChildWake, ignore
from .workspace import lock_directory, remove_stale, remove_tree

_FILES = 1  # of a request: a supervisor's socket
# The agent decides when runs end. Python itself ignores the last two, so a program would, too.
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)
_ORPHANS_MS = 20  # between two looks for the orphans of a supervisor that was killed


class Keeper:
    """Serves one agent.

    Args:
        file: number of the socket to the agent.
        directory: where the runs have their private directories; removed at the end.
        cgroup: the parent of their cgroups, removed at the end; "": none.
    """

    def __init__(self, file: int, directory: str, cgroup: str) -> None:
        self._agent = socket.socket(fileno=file)
        self._agent.set_inheritable(False)
        self._directory = directory
        self._cgroup = cgroup
        self._supervisors: set[int] = set()
        self._has_orphans = False
        for number in signal.valid_signals():  # ignored by whoever started the agent: nohup, say
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        for number in _IGNORED:
            signal.signal(number, ignore)
        linux.become_subreaper()
        self._wake = ChildWake()
        gc.disable()  # no cycles here; a collection would copy the shared pages of every fork
        gc.freeze()

    def run(self) -> None:
        """Serve until the agent has ended, and then until all runs have."""
        lock = lock_directory(self._directory)
        remove_stale(self._directory, now=time.time())
        poll = select.poll()
        poll.register(self._wake.file, select.POLLIN)
        poll.register(self._agent, select.POLLIN)
        serving = True
        while serving or self._supervisors:
            for file, _ in poll.poll(_ORPHANS_MS if self._has_orphans else None):
                if file == self._agent.fileno() and not self._fork():
                    poll.unregister(self._agent)
                    serving = False
            self._wake.clear()
            self._reap()
        remove_tree(self._directory)
        os.close(lock)
        if self._cgroup:
            with suppress(OSError):
                os.rmdir(self._cgroup)

    def _fork(self) -> bool:
        """Start the next supervisor; False: the agent has ended."""
        try:
            data, files, _, _ = socket.recv_fds(self._agent, 1, _FILES)
        except ConnectionError:
            return False
        if not data:
            return False
        for each in files:
            os.set_inheritable(each, False)  # a command must not speak for its supervisor
        if len(files) == _FILES:
            try:
                pid = os.fork()
            except OSError:
                pass  # no processes left: the agent sees that its socket closes
            else:
                if pid == 0:
                    self._supervise(files[0])
                self._supervisors.add(pid)
        for file in files:
            os.close(file)
        return True

    def _supervise(self, file: int) -> None:
        code = 1
        try:
            self._agent.close()
            self._wake.close()
            Supervisor(file).run()
            code = 0
        except BaseException:  # noqa: BLE001 (the child must never return into the keeper's loop)
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in self._supervisors:
                    self._supervisors.remove(pid)
                    self._has_orphans |= status != 0
        if self._has_orphans:
            self._kill_orphans()

    def _kill_orphans(self) -> None:
        """A supervisor was killed: what it kept hold of belongs to the keeper now."""
        orphans = [pid for pid in linux.children() if pid not in self._supervisors]
        for pid in orphans:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self._has_orphans = bool(orphans)  # their children come next
