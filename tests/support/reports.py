"""What a tier came to, read from pytest's JUnit file, and how it is told at the end."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

MAX_FAILURES = 30  # named in the summary, of each tier
MAX_MESSAGE_CHARS = 300


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
    failures: dict[str, str] = field(default_factory=dict)
    """Test → the first line of what went wrong."""
    unstable: dict[str, str] = field(default_factory=dict)
    """Those that failed beside others and then passed alone: defects of a test or a race in the
    product, to be mended, but no reason to refuse a change that did not cause them."""
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
            wrong = case.find("failure")
            failed = wrong is not None
            wrong = case.find("error") if wrong is None else wrong
            if wrong is not None:
                self.failed += failed
                self.errors += not failed
                test = f"{case.get('classname')}::{case.get('name')}"
                self.failures[test] = _first_line(wrong.get("message", ""))
            elif (skip := case.find("skipped")) is None:
                self.passed += 1
            elif skip.get("type") == "pytest.xfail":
                self.xfailed += 1
            else:
                self.skipped[skip.get("message", "")] += 1

    def take_second_try(self, again: Report) -> None:
        """Count the tests that failed as passed: they did when they were run again, alone."""
        self.unstable, self.failures = self.failures, {}
        self.passed += again.passed
        self.failed = self.errors = 0


def _first_line(message: str) -> str:
    lines = message.strip().splitlines()
    return lines[0][:MAX_MESSAGE_CHARS] if lines else ""


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
        failures = list(report.failures.items())[:MAX_FAILURES]
        lines += [f"{report.tier}: failed {test}: {why}" for test, why in failures]
    for report in reports:
        lines += [
            f"{report.tier}: unstable {test}: passed in a second try, to be mended: {why}"
            for test, why in report.unstable.items()
        ]
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
