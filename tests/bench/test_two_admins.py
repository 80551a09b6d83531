"""Two admins: how processes are held to a share of a core, and which ratio the goal is for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.bench.results.goals import FIGURES
from tests.bench.results.repeats import as_figures, flattened
from tests.bench.results.tables import summary, told
from tests.bench.scenarios.two_admins import HeldAdmins, TwoAdmins
from tests.bench.testbed.processor_share import CannotHoldError, held_to

REASON = str(CannotHoldError())


def figures(*, held: float | None) -> dict[str, Any]:
    """Of one measurement, in which the machine was the limit of floods that were not held."""
    rates: dict[str, Any] = {
        "one_runs_per_second": 4_000,
        "one_cpu_us_per_run": {"admin": 90},
        "runs_per_second": 3_800,
        "cpu_us_per_run": {"admin": 95},
    }
    admins = None if held is None else HeldAdmins(share=0.3, ratio=held, **rates)
    reason = REASON if held is None else None
    return as_figures(TwoAdmins(ratio=0.95, held=admins, not_held_because=reason, **rates))


def table(databases: dict[str, float | None]) -> list[str]:
    """What is printed below the head, by the ratio of held admins on each database."""
    found = {kind: {"two_admins": figures(held=held)} for kind, held in databases.items()}
    return summary({"databases": found}, judged=True).splitlines()[1:-1]


# --- the goal ------------------------------------------------------------------------------------


def test_the_goal_is_for_admins_that_are_the_limit_and_the_plain_ratio_is_shown() -> None:
    assert [line.split()[-5:] for line in table({"mariadb": 1.3, "postgresql": 1.2})] == [
        ["1.3", "1.3", "✓", "1.2", "✗"],
        ["are", "the", "limit", "0.95", "0.95"],
    ]


def test_without_held_admins_the_goal_is_for_the_plain_ratio_and_the_table_says_why() -> None:
    goal, plain, reason = table({"mariadb": 1.5, "postgresql": None})
    assert goal.split()[-5:] == ["1.3", "1.5", "✓", "0.95", "✗"]
    assert plain.split()[-2:] == ["0.95", "0.95"]
    assert reason == f"two admins, times one, on postgresql: {REASON}"
    assert table({"mariadb": None, "postgresql": None})[2] == (
        f"two admins, times one, on mariadb, postgresql: {REASON}"
    )


def test_a_result_from_before_admins_were_held_has_a_table_too() -> None:
    found = {"mariadb": {"two_admins": {"ratio": 1.4}}}
    goal, plain, _legend = summary({"databases": found}, judged=True).splitlines()[1:]
    assert goal.split()[-3:] == ["1.3", "1.4", "✓"]
    assert plain.split()[-1] == "1.4"


def test_the_goal_names_figures_that_there_are() -> None:
    """A renamed figure would silently fall out of the table."""
    goal, plain = (figure for figure in FIGURES if figure.path.startswith("two_admins."))
    numbers = flattened({"two_admins": figures(held=1.5)})
    assert {goal.path, goal.instead, plain.path} <= set(numbers)
    assert goal.reason({"two_admins": figures(held=None)}) == REASON
    assert goal.reason({"two_admins": figures(held=1.5)}) is None
    assert goal.reason({}) is plain.reason({}) is None


def test_what_was_not_measured_is_not_told() -> None:
    alone = told("mariadb", "two_admins", figures(held=None))
    assert "None" not in alone
    assert " ".join(alone.split()).endswith(f"not held because {REASON}")
    both = told("mariadb", "two_admins", figures(held=1.5))
    assert "None" not in both
    assert "held ratio 1.5" in " ".join(both.split())


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
