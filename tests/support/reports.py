"""What a tier came to, read from pytest's JUnit file, and how it is told at the end."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

MAX_FAILURES = 30  # named in the summary, of each tier


@dataclass(slots=True, kw_only=True)
class Report:
    """The outcome of one tier; `problems` says in words why it is not good."""

    tier: str
    budget_seconds: int
    seconds: float = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    xfailed: int = 0
    failures: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    shares_output: bool = False
    """Other tiers write at the same time: each line names its tier."""

    def say(self, text: str) -> None:
        """Print this at once, without mixing it with the lines of another tier."""
        for line in text.split("\n"):
            print(
                f"{self.tier:<10} | {line}\n" if self.shares_output else f"{line}\n",
                end="",
                flush=True,
            )

    @property
    def is_good(self) -> bool:
        return not (self.problems or self.failed or self.errors)

    def read(self, junit_file: Path) -> None:
        for case in ET.parse(junit_file).iter("testcase"):
            failed, broken = case.find("failure") is not None, case.find("error") is not None
            if failed or broken:
                self.failed += failed
                self.errors += not failed
                self.failures.append(f"{case.get('classname')}::{case.get('name')}")
            elif (skip := case.find("skipped")) is None:
                self.passed += 1
            elif skip.get("type") == "pytest.xfail":
                self.xfailed += 1
            else:
                self.skipped[skip.get("message", "")] += 1


def summary(
    reports: Sequence[Report], notes: Sequence[str], *, seconds: float, width: int = 80
) -> str:
    """A table of the tiers, what was skipped and why, and last one line as pytest writes it."""
    heads = f"{'passed':>8}{'failed':>8}{'skipped':>9}{'time':>10}{'budget':>10}"
    lines = [f"{'tier':<12}{'result':<10}{heads}"]
    for report in reports:
        over = "  over budget" if report.seconds > report.budget_seconds else ""
        lines.append(
            f"{report.tier:<12}{'ok' if report.is_good else 'FAILED':<10}{report.passed:>8}"
            f"{report.failed + report.errors:>8}{report.skipped.total():>9}"
            f"{report.seconds:>8.1f} s{report.budget_seconds:>8} s{over}"
        )
    lines += [f"{report.tier}: {problem}" for report in reports for problem in report.problems]
    lines += notes
    for report in reports:
        lines += [f"{report.tier}: failed {name}" for name in report.failures[:MAX_FAILURES]]
    for report in reports:
        lines += [f"{report.tier}: skipped {n}: {why}" for why, n in report.skipped.most_common()]
    return "\n".join([*lines, "", final_line(reports, seconds=seconds, width=width)])


def final_line(reports: Sequence[Report], *, seconds: float, width: int = 80) -> str:
    # A tier that failed without a failing test (lint, a crash) must not leave a green line.
    broken = sum(not report.is_good and not (report.failed or report.errors) for report in reports)
    counts = [
        (sum(report.failed for report in reports), "failed"),
        (sum(report.passed for report in reports), "passed"),
        (sum(report.skipped.total() for report in reports), "skipped"),
        (sum(report.xfailed for report in reports), "xfailed"),
        (sum(report.errors for report in reports) + broken, "errors"),
    ]
    told = ", ".join(f"{count} {name}" for count, name in counts if count) or "nothing to test"
    return f" {told} in {seconds:.2f}s ".center(width, "=")
