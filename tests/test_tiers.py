"""The runner behind `make test`: nothing that went wrong may end in a green line."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.support import system_packages, tiers
from tests.support.reports import Report, final_line, summary
from tests.support.system_packages import SystemPackage
from tests.support.tiers import Tier

FAR = 1e12
SAMPLE = """
import pytest
def test_good(): pass
def test_bad(): assert False
def test_elsewhere(): pytest.skip("no such server")
@pytest.mark.xfail
def test_known(): assert False
@pytest.fixture
def broken(): raise ValueError
def test_error(broken): pass
"""


def run_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, *, may_skip: bool = False
) -> Report:
    (tmp_path / "test_sample.py").write_text(text)
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a second of imports each time
    report = Report(tier="sample", budget_seconds=60)
    tiers._pytest("test_*.py", may_skip=may_skip)(report, FAR)
    return report


def test_every_outcome_of_a_tier_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "IN_CI", False)
    report = run_sample(tmp_path, monkeypatch, SAMPLE)

    assert (report.passed, report.failed, report.errors, report.xfailed) == (1, 1, 1, 1)
    assert report.skipped == {"no such server": 1}
    assert not report.is_good
    told = summary([report], [], seconds=3)
    assert "sample: skipped 1: no such server" in told
    assert "sample: failed test_sample::test_bad" in told
    assert "sample: failed test_sample::test_error" in told
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 errors in" in told.splitlines()[-1]


UNSTABLE = """
import pathlib
import pytest
marks = pathlib.Path(__file__).parent
def once(name):
    mark = marks / name
    if not mark.exists():
        mark.touch()
        raise ValueError("the first time")
def test_good(): pass
def test_first(): once("first")
@pytest.fixture
def started():
    once("second")
def test_second(started): pass
"""


def test_what_fails_is_tried_again_alone_and_told_as_unstable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_sample(tmp_path, monkeypatch, UNSTABLE)

    assert report.is_good
    assert (report.passed, report.failed, report.errors) == (3, 0, 0)
    assert list(report.unstable) == ["test_sample::test_first", "test_sample::test_second"]
    told = summary([report], [], seconds=3)
    assert "sample: unstable test_sample::test_first: passed in a second try, to be mended" in told
    assert "ValueError: the first time" in told


def test_a_second_try_that_fails_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_sample(tmp_path, monkeypatch, UNSTABLE + "def test_bad(): assert 1 == 2")

    assert (report.failed, report.errors) == (2, 1)
    assert not report.is_good
    assert not report.unstable


def test_many_failures_are_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = UNSTABLE + "".join(f"def test_{n}(): once('{n}')\n" for n in range(2))
    report = run_sample(tmp_path, monkeypatch, text)

    assert report.failed + report.errors == 4
    assert not report.unstable


@pytest.mark.parametrize("in_ci", [False, True])
def test_a_skip_is_a_failure_only_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_ci: bool
) -> None:
    monkeypatch.setattr(tiers, "IN_CI", in_ci)
    text = "import pytest\ndef test_it(): pytest.skip('elsewhere')\ndef test_other(): pass"
    report = run_sample(tmp_path, monkeypatch, text)

    assert report.is_good is not in_ci
    assert ("error" in final_line([report], seconds=3)) is in_ci


def test_a_tier_may_skip_in_ci_what_needs_tools_of_few_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "IN_CI", True)
    text = "import pytest\ndef test_it(): pytest.skip('no JDK')\ndef test_other(): pass"
    report = run_sample(tmp_path, monkeypatch, text, may_skip=True)

    assert report.is_good
    assert report.skipped == {"no JDK": 1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there are no tests"),
        ("import os\ndef test_it(): os._exit(7)", "pytest ended with exit code 7"),
    ],
)
def test_a_tier_without_a_result_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    report = run_sample(tmp_path, monkeypatch, text)

    assert report.problems == [problem]
    assert "1 errors" in final_line([report], seconds=3)


def test_a_hanging_tier_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report(tier="sample", budget_seconds=60)
    started = time.monotonic()
    code = tiers._run(["sleep", "600"], report, started + 0.1)

    assert code < 0
    assert time.monotonic() - started < 30
    assert not report.is_good


def test_the_summary_ends_with_one_line_like_pytest() -> None:
    reports = [
        Report(tier="lint", budget_seconds=60, seconds=1.5),
        Report(tier="unit", budget_seconds=10, seconds=11, passed=12),
    ]

    lines = summary(reports, ["mariadb-server is not installed"], seconds=12.5).splitlines()

    assert lines[-1] == " 12 passed in 12.50s ".center(80, "=")
    assert any("unit" in line and line.endswith("over budget") for line in lines)
    assert "mariadb-server is not installed" in lines


def test_an_unknown_tier_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert tiers.main(["integration"]) == 2
    assert "No such tier: integration. There are: lint unit" in capsys.readouterr().err


def test_a_tier_that_takes_hours_is_run_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[str] = []

    def of(name: str) -> Tier:
        def note(report: Report, deadline: float) -> None:
            run.append(name)
            report.passed = 1

        return Tier(name=name, budget_seconds=1, run=note)

    monkeypatch.setattr(tiers, "TIERS", (of("unit"), of("e2e")))
    monkeypatch.setattr(tiers, "ON_REQUEST", (of("nightly"),))
    assert tiers.main([]) == 0
    assert run == ["unit", "e2e"]
    assert tiers.main(["nightly"]) == 0
    assert run == ["unit", "e2e", "nightly"]


def test_the_budgets_of_a_lane_add_up_to_at_most_15_minutes() -> None:
    lanes = {tier.lane for tier in tiers.TIERS}
    for lane in lanes:
        assert sum(tier.budget_seconds for tier in tiers.TIERS if tier.lane == lane) <= 15 * 60


def test_lanes_run_side_by_side_and_tell_their_lines_apart(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    met = threading.Barrier(2, timeout=30)

    def of(name: str, lane: int) -> Tier:
        def run(report: Report, deadline: float) -> None:
            met.wait()
            tiers._run(["echo", f"of {name}"], report, deadline)
            report.passed = 1

        return Tier(name=name, budget_seconds=10, run=run, lane=lane)

    monkeypatch.setattr(tiers, "TIERS", (of("unit", 1), of("e2e", 2)))
    assert tiers.main([]) == 0
    told = capfd.readouterr().out.splitlines()
    assert "unit       | of unit" in told
    assert "e2e        | of e2e" in told
    assert [line.split()[0] for line in told if " ok " in line] == ["unit", "e2e"]
    assert "2 passed" in told[-1]


def test_a_later_tier_runs_though_an_earlier_one_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(report: Report, deadline: float) -> None:
        report.problems.append("broken")

    def succeed(report: Report, deadline: float) -> None:
        report.passed = 1

    chosen = (
        Tier(name="first", budget_seconds=1, run=fail),
        Tier(name="second", budget_seconds=1, run=succeed),
    )
    monkeypatch.setattr(tiers, "TIERS", chosen)

    assert tiers.main([]) == 1
    assert "1 passed, 1 errors" in capsys.readouterr().out.splitlines()[-1]


def test_missing_packages_are_named_with_their_consequence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(system_packages.OPT_OUT, "0")
    missing = SystemPackage(
        name="oracle-free", is_there=lambda: False, without_it="tests on Oracle are skipped"
    )
    there = SystemPackage(name="bash", is_there=lambda: True, without_it="")

    notes = system_packages.install_missing([missing, there])

    assert notes == ["oracle-free is not installed: tests on Oracle are skipped"]
    assert "oracle-free" in capsys.readouterr().out
