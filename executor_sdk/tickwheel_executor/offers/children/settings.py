"""What the owner of a machine decides about all children: user, limits, environment."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tickwheel_executor.errors import ConfigurationError
from tickwheel_executor.offers.config import ConfigTable

from .cgroups import NoCgroupsError, RunCgroups, prepare
from .environment import DEFAULT_PATH
from .keeper import KeeperHandle

CGROUP_CHOICES = ("auto", "required", "off")
_MAX_MEMORY_MB = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """Limits of each run; None: no limit."""

    memory_mb: int | None = None  # MiB of all its processes in a cgroup; else of each one's data
    processes: int | None = None  # of the run in a cgroup; else of its user, and none for root
    cpu_percent: int | None = None  # of one core: 150 is one and a half; only in a cgroup
    cpu_seconds: int | None = None  # of each process
    file_mb: int | None = None  # MiB of each file that it writes
    open_files: int | None = None  # of each process


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAs:
    """A user whose rights children have."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


@dataclass(kw_only=True)
class Children:
    """How children are run; `Script` and `Command` take one.

    Args:
        run_as: Name of the user whose rights they have; needs an agent that runs as root. None:
            those of this process.
        limits: Limits of each run.
        path: PATH of every child, and where programs without a directory are looked for.
        environment: Variables that every child gets.
        pass_environment: Names of variables that they get from this process, beside HOME, LANG,
            LC_*, LOGNAME, TZ and USER; "*" stands for any characters.
        allow_environment: Names of variables that jobs may set although they decide which code
            runs, such as LD_LIBRARY_PATH.
        cgroups: "auto": a cgroup for each run where that is possible. "required": no start
            without. "off".
        no_new_privileges: Whether setuid programs such as sudo give them no other rights.
        directory: Where their private directories are made; that for temporary files when None.

    Raises:
        ConfigurationError: lists every problem.
    """

    run_as: str | None = None
    limits: ChildLimits = field(default_factory=ChildLimits)
    path: str = DEFAULT_PATH
    environment: Mapping[str, str] = field(default_factory=dict)
    pass_environment: tuple[str, ...] = ()
    allow_environment: tuple[str, ...] = ()
    cgroups: str = "auto"
    no_new_privileges: bool = True
    directory: Path | None = None

    def __post_init__(self) -> None:
        problems: list[str] = []
        self.user = self._look_up(problems)
        if self.cgroups not in CGROUP_CHOICES:
            problems.append(
                f"cgroups is {self.cgroups!r}; write one of {', '.join(CGROUP_CHOICES)}"
            )
        if not all(each.startswith("/") for each in self.path.split(":")):
            problems.append(f"path is {self.path!r}; write absolute directories with : between")
        if self.directory is not None and not self.directory.is_dir():
            problems.append(f"directory: there is no directory {str(self.directory)!r}; create it")
        if problems:
            raise ConfigurationError(problems)

    def _look_up(self, problems: list[str]) -> RunAs | None:
        if self.run_as is None:
            return None
        try:
            user = pwd.getpwnam(self.run_as)
        except KeyError:
            problems.append(f"run_as: there is no user {self.run_as!r} on this machine; create it")
            return None
        if os.geteuid() not in (0, user.pw_uid):
            problems.append(
                f"run_as: only root may start programs as {self.run_as!r}; run the agent as that "
                "user and leave run_as out"
            )
        groups = tuple(os.getgrouplist(user.pw_name, user.pw_gid))
        return RunAs(
            name=user.pw_name, uid=user.pw_uid, gid=user.pw_gid, groups=groups, home=user.pw_dir
        )

    @cached_property
    def keeper(self) -> KeeperHandle:
        """The process that starts them; not started yet."""
        groups = self.run_cgroups
        temporary = groups.path if groups is not None and groups.is_temporary else None
        return KeeperHandle(self.directory, is_open=self.user is not None, cgroup=temporary)

    @cached_property
    def run_cgroups(self) -> RunCgroups | None:
        """Where the cgroups of runs are made; None: nowhere.

        Raises:
            ConfigurationError: they are required, and cannot be made.
        """
        if self.cgroups == "off":
            return None
        try:
            return prepare()
        except NoCgroupsError as error:
            if self.cgroups == "required":
                problem = f'children.cgroups: "required", but no cgroup can be made: {error}'
                raise ConfigurationError([problem]) from error
            return None

    def order(self, name: str) -> dict[str, Any]:
        """The part of a supervisor's order that is the same for all runs."""
        limits = self.limits
        cgroups = self.run_cgroups
        ours: dict[str, int | None] = {
            "cpu_seconds": limits.cpu_seconds,
            "file_bytes": _bytes(limits.file_mb),
            "open_files": limits.open_files,
        }
        cgroup = None
        held: Mapping[str, str] = {}
        if cgroups is not None:
            held = cgroups.limits(
                memory_mb=limits.memory_mb,
                processes=limits.processes,
                cpu_percent=limits.cpu_percent,
            )
            cgroup = {"path": str(cgroups.path / name), "limits": held}
        if "memory.max" not in held:
            ours["data_bytes"] = _bytes(limits.memory_mb)
        if "pids.max" not in held:
            ours["processes"] = limits.processes
        user = self.user
        return {
            "cgroup": cgroup,
            "limits": {key: value for key, value in ours.items() if value is not None},
            "user": None if user is None else (user.uid, user.gid),
            "groups": [] if user is None else list(user.groups),
            "no_new_privileges": self.no_new_privileges,
        }

    @classmethod
    def from_config(cls, table: Mapping[str, Any], problems: list[str]) -> Children | None:
        """The section [children] of an agent's file."""
        config = ConfigTable("children", table, problems)
        whole = config.whole_or_none
        limits = ChildLimits(
            memory_mb=whole("memory_mb", least=1, most=_MAX_MEMORY_MB),
            processes=whole("processes", least=1, most=1_000_000),
            cpu_percent=whole("cpu_percent", least=1, most=100_000),
            cpu_seconds=whole("cpu_seconds", least=1, most=10_000_000),
            file_mb=whole("file_mb", least=1, most=_MAX_MEMORY_MB),
            open_files=whole("open_files", least=16, most=1_000_000),
        )
        directory = config.text("directory")
        settings: dict[str, Any] = {
            "run_as": config.text("run_as") or None,
            "limits": limits,
            "path": config.text("path", DEFAULT_PATH),
            "environment": config.text_by_name("environment"),
            "pass_environment": config.texts("pass_environment"),
            "allow_environment": config.texts("allow_environment"),
            "cgroups": config.choice("cgroups", "auto", CGROUP_CHOICES),
            "no_new_privileges": config.flag("no_new_privileges", True),
            "directory": Path(directory) if directory else None,
        }
        config.finish()
        try:
            return cls(**settings)
        except ConfigurationError as error:
            problems += [f"children.{problem}" for problem in error.problems]
            return None


def _bytes(mebibytes: int | None) -> int | None:
    return None if mebibytes is None else mebibytes * 1024 * 1024
