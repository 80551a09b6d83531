"""Runs the test suite in tiers: python -m tests.support.tiers [TIER…].

Every tier runs even when an earlier one failed, and has a process of its own, so that a crash or a
hang costs only that tier. Tiers run in lanes side by side. What mostly waits for processes and
databases comes last, beside what computes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import IO

import pytest

from tests.support import system_packages
from tests.support.availability import IN_CI, NOT_HERE
from tests.support.databases import ONE_SERVER
from tests.support.reports import Report, summary
from tests.support.system_packages import SystemPackage

ROOT = Path(__file__).parents[2]
MAX_TRIED_AGAIN = 3
"""Failures of a tier up to which each gets a second try, alone; more are no accident."""
HANG_FACTOR = 5
"""A tier that takes this many times its budget is stopped: slow machines pass, hangs do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A part of the suite."""

    name: str
    budget_seconds: int
    """With 2 cores, beside the other lane; those of a lane add up to 15 minutes at most."""
    run: Callable[[Report, float], None]
    lane: int = 1
    needs: tuple[SystemPackage, ...] = ()
    first_seconds: int = 0
    """What it may take more the first time on a machine, to fetch and build what then stays."""


def _lint(report: Report, deadline: float) -> None:
    tools = Path(sys.executable).parent
    for command in (
        ["ruff", "check"],
        ["ruff", "format", "--check"],
        ["mypy"],
        ["lint-imports"],
    ):
        report.say(f"$ {' '.join(command)}")
        if _run([str(tools / command[0]), *command[1:]], report, deadline):
            report.problems.append(f"{' '.join(command)} found something")


def _pytest(
    *paths: str,
    processes: int = 1,
    first: Sequence[str] = (),
    may_skip: bool = False,
    one_server: bool = False,
) -> Callable[[Report, float], None]:
    """Run the tests of these paths.

    Args:
        processes: how many share them, file by file; each starts servers of its own.
        first: files that take long, to begin with. Those with few tests would otherwise come last,
            and keep one process busy after the others have ended.
        may_skip: in CI too, for what needs tools that not every machine has.
        one_server: tests of rules run on SQLite and one server, see tests/README.md.
    """
    environment = {ONE_SERVER: "1"} if one_server else {}
    parallel = [] if processes == 1 else [f"--numprocesses={processes}", "--dist=loadfile"]
    if first:
        parallel.append("--no-loadscope-reorder")

    def run(report: Report, deadline: float) -> None:
        found = _files((*first, *paths))
        with tempfile.TemporaryDirectory(prefix="tickwheel-report-") as directory:
            junit_file = Path(directory, "junit.xml")
            # A cache of its own: tiers run side by side, and each remembers here what has failed.
            command = [sys.executable, "-m", "pytest", "--tb=short", f"--junitxml={junit_file}"]
            command += ["-o", f"cache_dir={directory}/cache"]
            # A hanging test shows where, long before its tier is stopped.
            command += ["-o", "faulthandler_timeout=120"]
            code = _run([*command, *parallel, *found], report, deadline, environment)
            if junit_file.exists():
                report.read(junit_file)
            if 0 < len(report.failures) <= MAX_TRIED_AGAIN and not report.problems:
                report.say("\nWhat has failed is run again, alone:")
                junit_file.unlink()
                again = Report(tier=report.tier, budget_seconds=report.budget_seconds)
                retry = [*command, "--last-failed", *found]
                code_again = _run(retry, report, deadline, environment)
                if junit_file.exists():
                    again.read(junit_file)
                if code_again == 0 and again.passed:
                    report.take_second_try(again)
                    code = code_again
        if code == pytest.ExitCode.NO_TESTS_COLLECTED:
            report.problems.append("there are no tests")
        elif code and not (report.failed or report.errors or report.problems):
            report.problems.append(f"pytest ended with exit code {code}")
        avoidable = [why for why in report.skipped if not why.startswith(NOT_HERE)]
        if IN_CI and avoidable and not may_skip:
            report.problems.append("a skip is a failure in CI")

    return run


def _files(names: Sequence[str]) -> list[str]:
    """The files of tests that these are or hold, each once, in the order of the names."""
    files: dict[Path, None] = {}
    for name in names:
        paths = sorted(ROOT.glob(name))
        if not paths:
            raise FileNotFoundError(f"there is no {name}; it is named in {Path(__file__).name}")
        for path in paths:
            within = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
            files.update(dict.fromkeys(within))
    return [str(file.relative_to(ROOT)) for file in files]


TIERS = (
    Tier(name="lint", budget_seconds=45, lane=2, run=_lint),
    Tier(
        name="unit",
        budget_seconds=725,
        run=_pytest(
            "tests/admin",
            "tests/shared",
            "tests/executor_sdk",
            "tests/bench",
            "tests/test_*.py",
            processes=2,
            one_server=True,
            first=(
                "tests/admin/cli/test_cli.py",
                "tests/executor_sdk/runner/test_process_handlers.py",
                "tests/admin/store/database/test_schema.py",
                "tests/test_docker.py",
                "tests/admin/fuzz/test_fuzz_http.py",
            ),
        ),
        needs=(*system_packages.DATABASES, *system_packages.INTERPRETERS),
    ),
    Tier(
        name="simulation",
        budget_seconds=170,
        run=_pytest(
            "tests/simulation",
            "tests/interleavings",
            processes=2,
            first=(
                "tests/interleavings/test_interleavings.py",
                "tests/simulation/test_simulation.py",
                "tests/simulation/workflows/test_workflows.py",
                "tests/simulation/pools/test_pools.py",
            ),
        ),
        needs=(*system_packages.DATABASES, *system_packages.GALERA),
    ),
    Tier(
        name="browser",
        budget_seconds=360,
        lane=2,
        run=_pytest(
            "tests/browser",
            processes=2,
            first=(
                "tests/browser/test_looks.py",
                "tests/browser/test_looks_chinese.py",
                "tests/browser/test_journey.py",
                "tests/browser/test_several_admins.py",
            ),
        ),
        needs=system_packages.BROWSER,
    ),
    Tier(
        name="interop",
        budget_seconds=120,
        lane=2,
        run=_pytest("tests/interop", processes=2, may_skip=True),
        needs=system_packages.DATABASES,
        first_seconds=600,
    ),
    Tier(
        name="e2e",
        budget_seconds=250,
        lane=2,
        run=_pytest(
            "tests/drill",
            "tests/e2e",
            processes=3,  # they mostly wait
            first=(
                "tests/e2e/upgrade/test_rolling.py",
                "tests/e2e/cli/test_demo.py",
                "tests/e2e/test_killed_processes.py",
                "tests/drill/test_drills.py",
                "tests/e2e/test_bad_days.py",
                "tests/e2e/test_crashed_database.py",
            ),
        ),
        needs=(*system_packages.DATABASES, *system_packages.MONITORING),
    ),
)


def _command(*arguments: str) -> Callable[[Report, float], None]:
    """Run a module that exits with 0 when it found nothing."""

    def run(report: Report, deadline: float) -> None:
        if _run([sys.executable, "-m", *arguments], report, deadline):
            report.problems.append(f"python -m {' '.join(arguments)} found something, see above")
        else:
            report.passed += 1

    return run


SOAK_MINUTES = os.environ.get("SOAK_MINUTES", "60")
NIGHTLY_MINUTES = {
    "soak": float(SOAK_MINUTES),
    "fuzz": 40,
    "rules on every database": 40,
    "interleavings": 60,
    "seeds of the simulator": 60,
    "its seeds with executors of XXL-JOB": 60,
    "its seeds with workflows": 40,
    "its seeds with pools": 20,
    "its seeds with canary retries": 8,
    "looks and images": 20,
    "real processes": 10,
    "drills": 240,
}
FUZZ_SEEDS = 5
SIMULATION_SEEDS = 3_000
XXL_SEEDS = 800  # each with executors of XXL-JOB, under the full load
WORKFLOW_SEEDS = 800  # each with workflows, and people who answer their steps
POOL_SEEDS = 400  # each with jobs that share pools
CANARY_SEEDS = 100  # each with failures that people retry
INTERLEAVINGS = 30


def _nightly(report: Report, deadline: float) -> None:
    """What takes too long for every time, with other seeds each night."""
    night = datetime.now(UTC).toordinal()
    for name, value in {
        "TICKWHEEL_NIGHTLY": "1",
        "TICKWHEEL_FUZZ_SEEDS": _range(night, FUZZ_SEEDS),
        "TICKWHEEL_FUZZ_PER_ROUTE": "20",
        "TICKWHEEL_FUZZ_DATABASES": "sqlite,mariadb,postgresql",
        "TICKWHEEL_FUZZ_FRAME_SEEDS": "40",
        "TICKWHEEL_SIMULATION_SEEDS": _range(night, SIMULATION_SEEDS),
        "TICKWHEEL_INTERLEAVINGS": _range(night, INTERLEAVINGS),
    }.items():
        os.environ.setdefault(name, value)
    for part in (
        _command("tests.drill.soak", "--minutes", SOAK_MINUTES),
        _pytest(
            *("tests/admin", "tests/simulation", "tests/interleavings"),
            *("tests/executor_sdk/receipts", "tests/test_docker.py", "tests/test_packaging.py"),
            processes=2,
        ),
        _pytest("tests/browser/test_looks*.py", "tests/browser/test_hostile_texts.py", processes=2),
        _pytest("tests/images"),
        _pytest("tests/e2e", processes=2),
        _command(
            *("tests.simulation", "--xxl-job"),
            *(f"--first={night * XXL_SEEDS}", f"--seeds={XXL_SEEDS}"),
        ),
        _command(
            *("tests.simulation", "--workflows", "--load=12"),
            *(f"--first={night * WORKFLOW_SEEDS}", f"--seeds={WORKFLOW_SEEDS}"),
        ),
        _command(
            *("tests.simulation", "--pools", "--load=12"),
            *(f"--first={night * POOL_SEEDS}", f"--seeds={POOL_SEEDS}"),
        ),
        _command(
            *("tests.simulation", "--canaries", "--load=12"),
            *(f"--first={night * CANARY_SEEDS}", f"--seeds={CANARY_SEEDS}"),
        ),
        _pytest("tests/interop", processes=2, may_skip=True),
        _command("tests.drill"),
    ):
        part(report, deadline)


def _range(night: int, seeds: int) -> str:
    first = night * seeds
    return f"{first}-{first + seeds - 1}"


ON_REQUEST = (
    Tier(
        name="nightly",
        budget_seconds=round(sum(NIGHTLY_MINUTES.values()) * 60),
        run=_nightly,
        needs=(
            *system_packages.DATABASES,
            *system_packages.GALERA,
            *system_packages.MONITORING,
            *system_packages.BROWSER,
            *system_packages.CONTAINERS,
        ),
    ),
)
"""Too long for every time: `make test TIER=nightly`, shorter with `SOAK_MINUTES=15`."""


def main(names: Sequence[str]) -> int:
    known = [tier.name for tier in (*TIERS, *ON_REQUEST)]
    if unknown := sorted(set(names) - set(known)):
        print(f"No such tier: {', '.join(unknown)}. There are: {' '.join(known)}", file=sys.stderr)
        return 2
    tiers = [tier for tier in (*TIERS, *ON_REQUEST) if tier.name in names] or list(TIERS)
    plan = ", ".join(f"{tier.name} {tier.budget_seconds} s" for tier in tiers)
    print(f"Tiers and their time budgets: {plan}", flush=True)

    needed = dict.fromkeys(package for tier in tiers for package in tier.needs)
    notes = system_packages.install_missing(list(needed))
    started = time.monotonic()
    reports, complete = _run_lanes(tiers)
    if not complete:
        notes.append("interrupted: the tiers after this were not run")
    print("\n" + summary(reports, notes, seconds=time.monotonic() - started), flush=True)
    return 0 if complete and all(report.is_good for report in reports) else 1


def _run_lanes(tiers: Sequence[Tier]) -> tuple[list[Report], bool]:
    """The reports in the order of the tiers, and whether all were run."""
    lanes: dict[int, list[Tier]] = {}
    for tier in tiers:
        lanes.setdefault(tier.lane, []).append(tier)
    reports: dict[str, Report] = {}
    interrupted = threading.Event()

    def run(lane: Sequence[Tier]) -> None:
        for tier in lane:
            if not interrupted.is_set():
                reports[tier.name] = _run_tier(tier, shares_output=len(lanes) > 1)

    with ThreadPoolExecutor(len(lanes)) as pool:
        running = [pool.submit(run, lane) for lane in lanes.values()]
        try:
            wait(running)
        except KeyboardInterrupt:  # the tiers that run got the Ctrl-C as well, and tidy up
            interrupted.set()
    for each in running:
        each.result()
    return [reports[tier.name] for tier in tiers if tier.name in reports], not interrupted.is_set()


def _run_tier(tier: Tier, *, shares_output: bool = False) -> Report:
    report = Report(
        tier=tier.name,
        budget_seconds=tier.budget_seconds,
        shares_output=shares_output,
    )
    report.say(f"\n--- {tier.name} (budget {tier.budget_seconds} s) ---")
    started = time.monotonic()
    tier.run(report, started + HANG_FACTOR * tier.budget_seconds + tier.first_seconds)
    report.seconds = time.monotonic() - started
    return report


def _run(
    command: Sequence[str],
    report: Report,
    deadline: float,
    more_environment: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """The exit code; a command that is still running at the deadline is stopped and reported."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | dict(more_environment)
    # Hundreds of processes would compile every module for themselves, which takes a second of each.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    shared = report.shares_output
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE if shared else None,
        stderr=subprocess.STDOUT if shared else None,
    )
    telling = threading.Thread(target=_tell, args=(process.stdout, report), daemon=True)
    telling.start()
    try:
        return process.wait(max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        report.problems.append(f"stopped after {HANG_FACTOR} times the budget")
        process.kill()  # the kernel then ends its servers, see guarded_exec.py
        return process.wait(30)
    finally:
        telling.join(10)  # no longer: it ends with the pipe, which some child may keep open


def _tell(output: IO[bytes] | None, report: Report) -> None:
    if output is None:
        return
    with output:
        for line in output:
            report.say(line.decode(errors="replace").rstrip("\n"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
