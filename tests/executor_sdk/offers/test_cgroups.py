"""Cgroups of version 2, on a directory that looks like one: a real one needs a delegated system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.availability import impossible
from tickwheel_executor import ConfigurationError
from tickwheel_executor.offers.children import settings
from tickwheel_executor.offers.children.cgroups import NoCgroupsError, RunCgroups, prepare
from tickwheel_executor.offers.children.settings import ChildLimits, Children
from tickwheel_executor.offers.keeper.run_cgroup import RunCgroup

from .running import CHILDREN, command


def system(tmp_path: Path, *, own: str, procs: str = "") -> Path:
    """A /proc/self whose cgroup is `own`, and the directory of that group."""
    proc, group = tmp_path / "proc", tmp_path / "cgroup" / own.lstrip("/")
    proc.mkdir()
    group.mkdir(parents=True)
    (proc / "cgroup").write_text(f"1:name=systemd:/\n0::{own}\n")
    (proc / "mountinfo").write_text(f"30 1 0:26 / {tmp_path}/cgroup rw - cgroup2 cgroup2 rw\n")
    (group / "cgroup.procs").write_text(procs)
    (group / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    (group / "cgroup.subtree_control").write_text("")
    return proc


def test_the_agent_moves_into_a_leaf_and_hands_its_limits_down(tmp_path: Path) -> None:
    proc = system(tmp_path, own="/agent.service", procs=f"{os.getpid()}\n")
    group = tmp_path / "cgroup" / "agent.service"
    (group / "agent").mkdir()
    found = prepare(proc)
    assert (found.path, found.is_temporary) == (group, False)
    assert (group / "agent" / "cgroup.procs").read_text() == str(os.getpid())
    assert (group / "cgroup.subtree_control").read_text() == "+cpu"  # the last one written


def test_processes_of_others_are_left_where_they_are(tmp_path: Path) -> None:
    proc = system(tmp_path, own="/user.slice/session-1.scope", procs=f"1\n{os.getpid()}\n")
    with pytest.raises(NoCgroupsError, match="Delegate=yes"):
        prepare(proc)


def test_a_system_without_version_2_says_so(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text("30 1 0:26 / /sys/fs/cgroup rw - cgroup cgroup rw,pids\n")
    with pytest.raises(NoCgroupsError, match="no cgroups of version 2"):
        prepare(tmp_path)


def test_limits_are_held_by_the_group_where_it_can(tmp_path: Path) -> None:
    limits = ChildLimits(memory_mb=256, processes=50, cpu_percent=150, cpu_seconds=7)
    children = Children(limits=limits, cgroups="off")
    assert children.order("run-1")["limits"] == {
        "cpu_seconds": 7,
        "data_bytes": 256 * 1024 * 1024,
        "processes": 50,
    }
    (tmp_path / "memory.swap.max").touch()
    children.__dict__["run_cgroups"] = RunCgroups(tmp_path, frozenset({"memory", "pids", "cpu"}))
    order = children.order("run-1")
    assert order["limits"] == {"cpu_seconds": 7}
    assert order["cgroup"] == {
        "path": f"{tmp_path}/run-1",
        "limits": {
            "memory.max": str(256 * 1024 * 1024),
            "memory.swap.max": "0",
            "pids.max": "50",
            "cpu.max": "150000 100000",
        },
    }
    children.__dict__["run_cgroups"] = RunCgroups(tmp_path, frozenset({"pids"}))
    order = children.order("run-1")
    assert order["limits"] == {"cpu_seconds": 7, "data_bytes": 256 * 1024 * 1024}
    assert order["cgroup"]["limits"] == {"pids.max": "50"}


def test_who_requires_cgroups_does_not_start_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> RunCgroups:
        raise NoCgroupsError("it is read-only")

    monkeypatch.setattr(settings, "prepare", refuse)
    assert Children().run_cgroups is None
    with pytest.raises(ConfigurationError, match="no cgroup can be made: it is read-only"):
        _ = Children(cgroups="required").run_cgroups


def test_a_run_reads_from_its_group_what_the_kernel_killed(tmp_path: Path) -> None:
    group = RunCgroup(str(tmp_path / "run-1"), {})
    assert group.oom_kills() == 0
    (tmp_path / "run-1" / "memory.events").write_text("low 0\noom 1\noom_kill 3\n")
    assert group.oom_kills() == 3
    with pytest.raises(OSError, match=r"pids\.max"):
        RunCgroup(str(tmp_path / "run-2"), {"pids.max": "5"})
    assert not (tmp_path / "run-2").exists(), "a run without its limits does not start"


async def test_a_command_is_in_the_group_of_its_run() -> None:
    if CHILDREN.run_cgroups is None:
        impossible("no cgroups can be made here")
    end = await command("cat", "/proc/self/cgroup")
    [own] = [line for line in end.lines() if line.startswith("0::")]
    assert own.rpartition("/")[2].startswith("run-1-1-")
    assert list(CHILDREN.run_cgroups.path.glob("run-1-1-*")) == []


def test_a_directory_that_is_no_group_is_no_place_to_fork_into(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"Bad file descriptor|not implemented|not permitted"):
        RunCgroup(str(tmp_path / "run-1"), {}).fork()
