"""Starts a command: session, limits, user, files, and then its program in its place."""

from __future__ import annotations

import errno
import json
import os
import resource
from contextlib import suppress
from typing import Any

from . import linux
from .run_cgroup import RunCgroup

_OOM_SCORE = b"500"  # the kernel takes a command before the agent, when the machine has no memory
_LIMITS = {
    "cpu_seconds": resource.RLIMIT_CPU,
    "data_bytes": getattr(resource, "RLIMIT_DATA", resource.RLIMIT_AS),
    "file_bytes": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}


class StartError(Exception):
    """A command could not be started; `problem` says why: step, errno, text."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(problem["text"])
        self.problem = problem


def problem_of(step: str, error: BaseException) -> dict[str, Any]:
    """An exception of a step as part of a report."""
    number = error.errno if isinstance(error, OSError) else None
    text = os.strerror(number) if number else f"{type(error).__name__}: {error}"
    return {"step": step, "errno": number, "text": text}


def start(order: dict[str, Any], files: tuple[int, int, int], cgroup: RunCgroup | None) -> int:
    """Start the command of an order; returns its process id once its program runs.

    Args:
        files: standard input, output and errors.

    Raises:
        StartError: it could not be started, and nothing is left of it.
    """
    parent = os.getpid()
    reader, writer = os.pipe()
    try:
        pid, cgroup = _fork(cgroup)
    except OSError as error:
        os.close(reader)
        os.close(writer)
        raise StartError(problem_of("fork", error)) from error
    if pid == 0:
        _become(order, files, cgroup, parent, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()  # ends when the program has replaced this one
    if data:
        os.waitpid(pid, 0)
        raise StartError(json.loads(data))
    return pid


def _fork(cgroup: RunCgroup | None) -> tuple[int, RunCgroup | None]:
    """As `os.fork`; and the cgroup that the child has to join itself."""
    if cgroup is not None:
        with suppress(OSError):
            return cgroup.fork(), None
    return os.fork(), cgroup


def _become(
    order: dict[str, Any],
    files: tuple[int, int, int],
    cgroup: RunCgroup | None,
    parent: int,
    writer: int,
) -> None:
    # A fork shares its pages until one side writes to them, and counting a reference is writing: so
    # what runs here is kept short.
    step = "session"
    try:
        os.setsid()
        if cgroup is not None:
            step = "cgroup"
            cgroup.join()
        _write_oom_score()
        step = "limits"
        _limit(order["limits"])
        os.umask(0o022)
        if order["user"] is not None:
            step = "user"
            os.setgroups(order["groups"])
            os.setgid(order["user"][1])
            os.setuid(order["user"][0])
        if order["no_new_privileges"]:
            linux.refuse_new_privileges()
        linux.die_with_parent()
        if os.getppid() != parent:
            os._exit(1)  # it ended just before
        step = "directory"
        os.chdir(order["cwd"])
        if os.getcwd() != order["cwd"]:  # a link was put in its place after it was checked
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        for number, file in enumerate(files):
            os.dup2(file, number)
        step = "program"
        os.execve(order["argv"][0], order["argv"], order["environment"])  # noqa: S606 (no shell is wanted)
    except BaseException as error:  # noqa: BLE001 (this copy of the supervisor must end here)
        os.write(writer, json.dumps(problem_of(step, error)).encode())
    finally:
        os._exit(127)


def _write_oom_score() -> None:
    try:
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:  # not Linux
        return
    try:
        os.write(file, _OOM_SCORE)
    except OSError:  # forbidden: the agent's own score is higher
        pass
    finally:
        os.close(file)


def _limit(limits: dict[str, int]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, value in limits.items():
        kind = _LIMITS[name]
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # SIGXCPU comes at the soft limit, SIGKILL at the hard one.
        resource.setrlimit(kind, (most, most + 5 if name == "cpu_seconds" and hard < 0 else most))
