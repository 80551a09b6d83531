"""Who was to fire each instant, and who did: what a drill is judged by.

XXL-JOB answers for an instant once it has committed a next time behind it, whether its ring then
lived long enough to fire it or not. We answer for it once it is in the ledger. Of each job these
parts must follow each other from the first instant to the last, with nothing between and nothing
twice; and nothing that we answer for may come out of a ring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tickwheel_admin.services.xxl_job.moves.take_over import PATIENCE_MS


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """Instants from one on up to another, which is not among them; UTC epoch ms."""

    start: int
    end: int
    whose: str


@dataclass(slots=True)
class Pass:
    """What a pass of XXL-JOB's loop did with one job."""

    committed: bool = False


@dataclass(frozen=True, slots=True)
class TheirFire:
    """A job that XXL-JOB started."""

    at: int  # the instant that it stands for
    by: Pass


@dataclass(slots=True)
class Books:
    """Everything that XXL-JOB did."""

    answered: dict[int, list[Part]] = field(default_factory=dict)  # by job there
    fired: dict[int, list[TheirFire]] = field(default_factory=dict)
    # (job, its next there) → how long the command had waited that took it over
    waited_ms: dict[tuple[int, int], int] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)  # silently: their next time was null
    figures: Counter[str] = field(default_factory=Counter)

    def answer(self, job: int, start: int, end: int) -> None:
        self.answered.setdefault(job, []).append(Part(start, end, "XXL-JOB"))

    def fire(self, job: int, at: int, by: Pass) -> None:
        self.fired.setdefault(job, []).append(TheirFire(at, by))
        self.figures["fires of XXL-JOB"] += 1

    def would_double(self, job: int, fire: TheirFire) -> bool:
        """Whether XXL-JOB fired without writing that back, and would have fired again by itself.

        Its database knows nothing of such a fire. We wait for a moment at which no ring can hold
        one; when none comes for long, the job is taken over nevertheless.
        """
        waited_ms = self.waited_ms.get((job, fire.at), PATIENCE_MS)
        return not fire.by.committed and waited_ms >= PATIENCE_MS


def judge(
    job: int,
    books: Books,
    *,
    first: int,
    until: int,
    ours: list[int],
    next_after: Callable[[int], int],
) -> list[str]:
    """What went wrong with a job.

    Args:
        first: its first instant.
        until: the next fire of whoever has it at the end.
        ours: the instants in our ledger.
    """
    problems = []
    parts = [*books.answered.get(job, []), *(Part(at, next_after(at), "us") for at in ours)]
    reached = first
    for part in sorted(parts):
        if part.start > reached:
            problems.append(f"job {job}: {reached}..{part.start} is nobody's (then {part.whose})")
        if part.start < reached:
            problems.append(f"job {job}: {part.start} is fired again by {part.whose}")
        reached = max(reached, part.end)
    if reached < until:
        problems.append(f"job {job}: {reached}..{until} is nobody's (at the end)")
    if reached > until:
        problems.append(f"job {job}: {until} will be fired again")
    mine = set(ours)
    for fire in books.fired.get(job, []):
        if fire.at in mine:
            if books.would_double(job, fire):
                books.figures["fires that XXL-JOB would have doubled itself"] += 1
                continue
            problems.append(f"job {job}: {fire.at} was fired by both")
    return problems
