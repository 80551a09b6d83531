"""Several admins: their work, how they are held to a share of a core, which goals count."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.bench.results.goals import FIGURES
from tests.bench.results.repeats import as_figures, flattened
from tests.bench.results.tables import summary, told
from tests.bench.scenarios.several_admins import Rate, SeveralAdmins, course
from tests.bench.testbed.mixed_work import MixedWork
from tests.bench.testbed.processor_share import CannotHoldError, held_to
from tests.bench.testbed.queued_runs import Share, in_turn

REASON = str(CannotHoldError())


def rate(ratio: float, *, share_used: float | None) -> Rate:
    cpu = {"admin": 90, "nodes": 20, "database": 100}
    return Rate(runs_per_second=400, cpu_us_per_run=cpu, ratio=ratio, share_used=share_used)


def figures(*, held: tuple[float, float] | None) -> dict[str, Any]:
    """Of one measurement, in which the machine was the limit of floods that were not held."""
    names = ("one", "two", "four")
    rates = None if held is None else (1.0, *held)
    return as_figures(
        SeveralAdmins(
            runs=20_000,
            share=0.15,
            held=rates and {n: rate(r, share_used=0.9) for n, r in zip(names, rates, strict=True)},
            free={"one": rate(1.0, share_used=None), "two": rate(0.95, share_used=None)},
            not_held_because=REASON if held is None else None,
        )
    )


def table(databases: dict[str, tuple[float, float] | None]) -> list[str]:
    """What is printed below the head, by the ratios of held admins on each database."""
    found = {kind: {"several_admins": figures(held=held)} for kind, held in databases.items()}
    return summary({"databases": found}, judged=True).splitlines()[1:-1]


# --- the goals -----------------------------------------------------------------------------------


def test_the_goals_are_for_admins_that_are_the_limit_and_the_plain_ratio_is_shown() -> None:
    two, four, plain = table({"mariadb": (1.85, 3.1), "postgresql": (1.7, 3.3)})
    assert two.split()[-5:] == ["1.8", "1.85", "✓", "1.7", "✗"]
    assert four.split()[-5:] == ["3.2", "3.1", "✗", "3.3", "✓"]
    assert plain.split()[-3:] == ["limit", "0.95", "0.95"]


def test_without_held_admins_the_goal_of_two_is_for_the_plain_ratio_and_the_table_says_why() -> (
    None
):
    two, four, plain, reason = table({"mariadb": (1.85, 3.3), "postgresql": None})
    assert two.split()[-5:] == ["1.8", "1.85", "✓", "0.95", "✗"]
    assert four.split()[-3:] == ["3.2", "3.3", "✓"]
    assert plain.split()[-2:] == ["0.95", "0.95"]
    assert reason == f"two admins, times one, on postgresql: {REASON}"


def test_the_goals_name_figures_that_there_are() -> None:
    """A renamed figure would silently fall out of the table."""
    two, four, plain = (each for each in FIGURES if each.path.startswith("several_admins."))
    numbers = flattened({"several_admins": figures(held=(1.9, 3.5))})
    assert {two.path, two.instead, four.path, plain.path} <= set(numbers)
    assert two.reason({"several_admins": figures(held=None)}) == REASON
    assert two.reason({"several_admins": figures(held=(1.9, 3.5))}) is None
    assert two.reason({}) is plain.reason({}) is None


def test_what_was_not_measured_is_not_told() -> None:
    alone = told("mariadb", "several_admins", figures(held=None))
    assert "None" not in alone
    assert " ".join(alone.split()).endswith(f"not held because {REASON}")
    held = " ".join(told("mariadb", "several_admins", figures(held=(1.9, 3.5))).split())
    assert "None" not in held
    assert "held four ratio 3.5, held four share used 0.9" in held


# --- the course and the work ---------------------------------------------------------------------


@pytest.mark.parametrize("repeats", [1, 2, 3, 5])
def test_each_number_of_admins_is_measured_equally_often(repeats: int) -> None:
    steps = course(repeats)
    counted: Counter[int] = Counter()
    for admins, count in steps:
        counted[admins] += count
    assert counted == {1: repeats, 2: repeats, 4: repeats}
    assert steps[0][0] == 4  # all of them run at first
    assert all(before != after for (before, _), (after, _) in pairwise(steps))


def mixed(*, executors: int, serial_jobs: int) -> MixedWork:
    return MixedWork(
        tokens=[],
        parallel=[(number, number) for number in range(executors)],
        serial=[(1_000 + number, number % executors) for number in range(serial_jobs)],
    )


def test_a_tenth_of_all_runs_are_those_of_serial_jobs_with_few_runs_each() -> None:
    shares = mixed(executors=20, serial_jobs=110).shares(2_000)
    serial = [share for share in shares if not share.is_parallel]
    assert sum(share.runs for share in shares) == 2_000
    assert sum(share.runs for share in serial) == 200
    assert {share.runs for share in serial} == {2}
    assert Counter(share.executor_id for share in serial) == dict.fromkeys(range(20), 5)


def test_a_small_flood_has_its_serial_runs_in_fewer_jobs() -> None:
    shares = mixed(executors=20, serial_jobs=500).shares(2_000)
    assert sum(share.runs for share in shares if not share.is_parallel) == 200


def test_the_runs_of_each_job_are_spread_over_the_flood() -> None:
    few = Share(job_id=1, executor_id=1, runs=2, is_parallel=False)
    many = Share(job_id=2, executor_id=1, runs=6)
    assert [share.job_id for share in in_turn([many, few])] == [2, 2, 1, 2, 2, 2, 1, 2]


# --- control groups ------------------------------------------------------------------------------


@pytest.fixture(params=["version 1", "version 2", "version 2, not shared out"])
def cgroups(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any) -> Path:
    """A tree with the files of the kernel's: they come and go with the directory of a group."""
    make = Path.mkdir

    def make_group(path: Path, *, exist_ok: bool = False) -> None:
        make(path, exist_ok=exist_ok)
        (path / "cgroup.procs").touch()

    monkeypatch.setattr(Path, "mkdir", make_group)
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    if request.param == "version 1":
        (tmp_path / "cpu").mkdir()
    else:
        (tmp_path / "cgroup.procs").touch()
        switches = "memory" if "not" in request.param else "cpu memory"
        (tmp_path / "cgroup.subtree_control").write_text(switches)
    return tmp_path


def groups_made(cgroups: Path) -> list[Path]:
    return list(cgroups.rglob("tickwheel-bench-*"))


def test_a_process_is_in_a_group_with_its_quota_and_at_home_afterwards(cgroups: Path) -> None:
    pid = os.getpid()
    with held_to(pid, 0.3, cgroups=cgroups):
        (group,) = groups_made(cgroups)
        assert (group / "cgroup.procs").read_text() == str(pid)
        quota = {path.name: path.read_text() for path in group.glob("cpu.*")}
        if group.parent.name == "cpu":
            assert quota == {"cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "3000"}
        else:
            assert quota == {"cpu.max": "3000 10000"}
            assert "cpu" in (cgroups / "cgroup.subtree_control").read_text()
    assert groups_made(cgroups) == []
    assert (group.parent / "cgroup.procs").read_text() == str(pid)


def test_a_group_goes_whatever_happens_in_the_block(cgroups: Path) -> None:
    with pytest.raises(KeyboardInterrupt), held_to(os.getpid(), 0.3, cgroups=cgroups):
        raise KeyboardInterrupt
    assert groups_made(cgroups) == []


@pytest.mark.parametrize("refused", ["cpu.", "cgroup.procs"])
def test_a_group_that_cannot_be_used_is_not_left_behind(
    refused: str, cgroups: Path, monkeypatch: Any
) -> None:
    write = Path.write_text
    asked = []

    def refuse(path: Path, text: str) -> int:
        if path.name.startswith(refused):
            asked.append(path)
            raise PermissionError(path)
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(CannotHoldError), held_to(os.getpid(), 0.3, cgroups=cgroups):
        pytest.fail("it was not held")
    assert len(asked) == 1
    assert groups_made(cgroups) == []


def test_a_machine_without_control_groups_says_what_it_needs(tmp_path: Path) -> None:
    needs = pytest.raises(CannotHoldError, match="needs the right to write cgroups")
    with needs, held_to(os.getpid(), 0.3, cgroups=tmp_path):
        pytest.fail("it was not held")
