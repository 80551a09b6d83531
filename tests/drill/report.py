"""What a drill found: figures, broken promises, and the table of all drills."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.ledger import Kind, Problem

GOALS = {
    "takeover": 3.0,  # kill -9 of an admin, until a fire due after it starts elsewhere
    "noticed_killed": 6.0,  # kill -9 of a node, until it is declared dead
    "noticed_vanished": 17.0,  # the same for a node behind a cut cable
    "xxl_restart_lost": 12.0,  # restart of an executor in Java, until its run is lost
    "late_p99_pressed": 0.060,  # fires, while one person or node does its worst
    "late_p99_all": 0.150,  # the same, all of it at once
}
"""Figures in seconds that have a goal, for the 99th percentile."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """One drill."""

    database: str
    drill: str
    runs: int = 0
    seconds: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)  # seconds
    problems: list[Problem] = field(default_factory=list)
    error: str = ""  # the drill itself did not come to its end

    @property
    def is_good(self) -> bool:
        return not (self.problems or self.error)

    def line(self) -> str:
        """One row of the table."""
        figures = "  ".join(f"{name} {seconds:.2f} s" for name, seconds in self.figures.items())
        counts = Counter(problem.kind for problem in self.problems)
        found = ", ".join(f"{counts[kind]} {kind}" for kind in Kind if counts[kind])
        verdict = found or ("did not end" if self.error else "ok")
        return (
            f"{self.database:<11} {self.drill:<28} {self.runs:>6} runs {self.seconds:>6.1f} s"
            f"  {verdict:<12} {figures}"
        )


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile; of few values the 99th is their maximum."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def summary(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Totals, and the distribution of every figure."""
    outcomes = list(outcomes)
    counts = Counter(problem.kind for outcome in outcomes for problem in outcome.problems)
    samples: dict[str, list[float]] = {}
    for outcome in outcomes:
        for name, seconds in outcome.figures.items():
            samples.setdefault(name, []).append(seconds)
    return {
        "drills": len(outcomes),
        "runs": sum(outcome.runs for outcome in outcomes),
        **{kind.value: counts[kind] for kind in Kind},
        "errors": sum(bool(outcome.error) for outcome in outcomes),
        "figures": {
            name: {
                "n": len(values),
                "p50": round(percentile(values, 0.5), 3),
                "p99": round(percentile(values, 0.99), 3),
                "max": round(max(values), 3),
            }
            for name, values in sorted(samples.items())
        },
    }


def print_summary(outcomes: Sequence[Outcome], about: dict[str, Any]) -> None:
    """The totals for people, and one JSON line for programs."""
    total = summary(outcomes)
    print()
    for outcome in outcomes:
        for problem in outcome.problems[:20]:
            print(f"{outcome.database} {outcome.drill}: {problem}")
        if outcome.error:
            print(f"{outcome.database} {outcome.drill}: did not come to its end: {outcome.error}")
    for name, figure in total["figures"].items():
        goal = GOALS.get(name)
        verdict = ""
        if goal is not None:
            verdict = f"  goal {goal:g} s: {'met' if figure['p99'] <= goal else 'MISSED'}"
        print(
            f"{name:<17} n {figure['n']:>3}  p50 {figure['p50']:.2f} s"
            f"  p99 {figure['p99']:.2f} s  max {figure['max']:.2f} s{verdict}"
        )
    counts = ", ".join(f"{kind} {total[kind]}" for kind in Kind)
    print(f"{total['drills']} drills, {total['runs']:,} runs: {counts}, errors {total['errors']}")
    print(json.dumps({**about, **total}), flush=True)
