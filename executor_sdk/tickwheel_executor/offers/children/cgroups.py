"""The agent's own cgroup (version 2), below which each run gets one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from weakref import finalize

from tickwheel_executor.offers.keeper.linux import descendants

_CONTROLLERS = ("memory", "pids", "cpu")
_AGENT = "agent"


class NoCgroupsError(Exception):
    """No cgroups can be made here; says why."""


class RunCgroups:
    """Where the cgroups of runs are made.

    Args:
        path: of the directory that is the parent of all.
        controllers: those whose limits can be set.
        is_temporary: whether the parent is to be removed with this object, or with this process.
            If the process is killed, its keeper does that.
    """

    def __init__(
        self, path: Path, controllers: frozenset[str], *, is_temporary: bool = False
    ) -> None:
        self.path = path
        self.controllers = controllers
        self.is_temporary = is_temporary
        if is_temporary:
            finalize(self, _remove, path, os.getpid())

    def limits(
        self, *, memory_mb: int | None, processes: int | None, cpu_percent: int | None
    ) -> dict[str, str]:
        """Contents of the files of a run's group; only limits that the group has."""
        limits = {}
        if memory_mb is not None and "memory" in self.controllers:
            limits["memory.max"] = str(memory_mb * 1024 * 1024)
            if (self.path / "memory.swap.max").exists():
                limits["memory.swap.max"] = "0"
        if processes is not None and "pids" in self.controllers:
            limits["pids.max"] = str(processes)
        if cpu_percent is not None and "cpu" in self.controllers:
            limits["cpu.max"] = f"{cpu_percent * 1000} 100000"
        return limits


def _remove(path: Path, creator: int) -> None:
    if os.getpid() == creator:  # else this is a forked child
        with suppress(OSError):
            path.rmdir()


def prepare(proc: Path = Path("/proc/self")) -> RunCgroups:
    """Make this process's cgroup the parent of others.

    A group with limits for its children may hold no processes itself: so this process, and those
    that it started, move to a child named `agent`. Under systemd that needs `Delegate=yes`.

    Raises:
        NoCgroupsError: the system has none, or this user may not change them.
    """
    mount = _mount_of(proc / "mountinfo")
    own = mount / _own_path(proc / "cgroup").lstrip("/")
    if own.name == _AGENT and os.access(own.parent, os.W_OK):
        own = own.parent  # systemd's DelegateSubgroup=agent, or an agent before this one
    is_temporary = own == mount  # the root may hold processes, and is not ours to change
    try:
        if is_temporary:
            own = mount / f"tickwheel-{os.getpid()}-{os.urandom(4).hex()}"
            own.mkdir()
        else:
            _move_all(own)
        return RunCgroups(own, _enable(own), is_temporary=is_temporary)
    except OSError as error:
        raise NoCgroupsError(f"{own}: {error.strerror or error}") from error


def _move_all(own: Path) -> None:
    pids = [int(pid) for pid in (own / "cgroup.procs").read_text(encoding="ascii").split()]
    ours = {os.getpid(), *descendants()}
    if not ours.issuperset(pids):
        raise NoCgroupsError(
            f"{own} holds processes that are not the agent's; run it as a service with Delegate=yes"
        )
    leaf = own / _AGENT
    leaf.mkdir(exist_ok=True)
    for pid in pids:
        with suppress(ProcessLookupError):
            (leaf / "cgroup.procs").write_text(str(pid), encoding="ascii")


def _enable(path: Path) -> frozenset[str]:
    """Let the children of this group have limits; returns which."""
    available = (path / "cgroup.controllers").read_text(encoding="ascii").split()
    for name in _CONTROLLERS:
        if name in available:
            with suppress(OSError):  # it holds processes, or it is not delegated
                (path / "cgroup.subtree_control").write_text(f"+{name}", encoding="ascii")
    enabled = (path / "cgroup.subtree_control").read_text(encoding="ascii").split()
    return frozenset(enabled) & frozenset(_CONTROLLERS)


def _mount_of(mounts: Path) -> Path:
    """Where version 2 is mounted."""
    with suppress(OSError):
        for line in mounts.read_text(encoding="utf-8").splitlines():
            before, _, after = line.partition(" - ")
            if after.startswith("cgroup2 "):
                return Path(before.split()[4])
    raise NoCgroupsError("this system has no cgroups of version 2")


def _own_path(path: Path) -> str:
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("0::"):
                return line[3:]
    raise NoCgroupsError("this process is in no cgroup of version 2")
