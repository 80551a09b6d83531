"""Play a scenario with many seeds, and tell the story of those that broke a promise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.interleavings.baton import FaultShares, Figures, PlayFailed, Step
from tests.interleavings.clusters import Cluster
from tests.interleavings.invariants import broken
from tests.interleavings.stage import Stage

ENVIRONMENT_VARIABLE = "TICKWHEEL_INTERLEAVINGS"
FAULTY_EVERY = 3  # every third seed also meets errors and lost answers
FAULTS = FaultShares(rolled_back=0.02, answer_lost=0.1)
NO_FAULTS = FaultShares()

Scenario = Callable[[Stage], Iterator[None]]


@dataclass(slots=True, kw_only=True)
class Failure:
    """A seed that broke a promise."""

    scenario: str
    kind: str
    seed: int
    violations: list[str]
    history: list[Step]

    def __str__(self) -> str:
        steps = [f"{number:>4} {step}" for number, step in enumerate(self.history, 1)]
        replay = f"replay with {ENVIRONMENT_VARIABLE}={self.seed}-{self.seed}"
        return "\n".join(
            [
                f"{self.scenario} on {self.kind}, seed {self.seed}: {replay}",
                *steps,
                *(f"BROKEN: {violation}" for violation in self.violations),
            ]
        )


@dataclass(slots=True, kw_only=True)
class Explored:
    """What became of all seeds."""

    figures: Figures = field(default_factory=Figures)
    failures: list[Failure] = field(default_factory=list)

    def assert_kept(self) -> None:
        """Fail with the story of the first seed that broke a promise."""
        seeds = [failure.seed for failure in self.failures]
        assert not self.failures, f"seeds {seeds} of {self.figures.plays}\n{self.failures[0]}"


def seeds(default: range) -> range:
    """The usual seeds, or as TICKWHEEL_INTERLEAVINGS says: N from 1, or N-M."""
    wanted = os.environ.get(ENVIRONMENT_VARIABLE, "")
    first, dash, last = wanted.partition("-")
    if dash:
        return range(int(first), int(last) + 1)
    return range(1, int(first) + 1) if first else default


def explore(
    cluster: Cluster, scenario: Scenario, chosen: Iterable[int], *, stop_at_first: bool = False
) -> Explored:
    """Play the scenario with each of these seeds."""
    explored = Explored()
    for seed in chosen:
        failure = play(cluster, scenario, seed, explored.figures)
        if failure is not None:
            explored.failures.append(failure)
            if stop_at_first:
                break
    return explored


def play(cluster: Cluster, scenario: Scenario, seed: int, figures: Figures) -> Failure | None:
    """Play one seed; what it broke, if anything."""
    name = scenario.__name__
    faults = NO_FAULTS if seed % FAULTY_EVERY else FAULTS
    stage = Stage(cluster, name, seed, faults)
    try:
        acts = scenario(stage)
        next(acts)
        try:
            stage.perform()
        except PlayFailed as error:
            stage.violations.append(str(error))
        else:
            next(acts, None)
            stage.violations += broken(stage)
    finally:
        stage.close()
    figures.add(stage.play.figures)
    if not stage.violations:
        return None
    return Failure(
        scenario=name,
        kind=cluster.kind,
        seed=seed,
        violations=stage.violations,
        history=stage.play.history,
    )
