"""The sums of a proof, and what must hold between them.

The self-audit says what should have been; the ledger says what became of it now. Three sums join
the two, hour by hour:

    expected + surplus        = runs that the audit saw + without a run + missing
    runs that the audit saw   = runs now + gone since - new since
    runs now                  = succeeded + retried + failed + … + open

The first holds within the audit, the third within the ledger. Only the second compares the two, and
what differs is told with its reason. Hours that were not audited, or not for all triggers, are
summed by themselves: of them only the third is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tickwheel_admin.domain.proof.fires import FireCount, FireOutcome

HOUR_MS = 3_600_000
MAX_DAYS = 31


class HourStatus(StrEnum):
    """How far what should have been is known of an hour."""

    AUDITED = "audited"
    PARTLY = "partly"  # the self-audit left out triggers
    NOT_AUDITED = "not_audited"  # not yet, or not any more


class GoneReason(StrEnum):
    """Why runs that the self-audit saw are not in the ledger any more."""

    RETENTION = "retention"
    PURGED = "purged"
    UNKNOWN = "unknown"  # the next audit of the hour will tell, if there is one


@dataclass(slots=True, kw_only=True)
class ProofSums:
    """What an hour, or several, come to."""

    hours: int = 0
    expected: int = 0
    surplus: int = 0  # runs for instants that were not expected, or have one already
    audited_runs: int = 0  # runs that the audit saw
    without_run: Counter[str] = field(default_factory=Counter)  # by reason
    missing: int = 0
    gone: Counter[str] = field(default_factory=Counter)  # runs seen by the audit, by reason
    new: int = 0  # runs that came after the audit
    runs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)  # by reason
    late: int = 0  # of the runs

    def count(self, found: FireCount) -> None:
        """Count runs of the ledger."""
        self.runs += found.runs
        self.outcomes[found.outcome] += found.runs
        if found.outcome is FireOutcome.SKIPPED:
            self.skipped[found.reason or FireOutcome.SKIPPED] += found.runs
        if found.is_late:
            self.late += found.runs

    def add(self, other: ProofSums) -> None:
        """Count other hours in."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _COUNTERS:
            getattr(self, name).update(getattr(other, name))

    @property
    def exceptions(self) -> int:
        """Runs that are told of by themselves, but those that are only late."""
        return self.runs - self.outcomes[FireOutcome.SUCCEEDED]

    @property
    def unrun(self) -> int:
        """Instants that brought no work: without a run, missing, or skipped."""
        skipped = self.outcomes[FireOutcome.SKIPPED]
        return self.without_run.total() + self.missing + skipped

    def faults(self, *, proven: bool = True) -> list[str]:
        """Which sums do not agree; none: all do.

        Args:
            proven: the hours were audited for all triggers; else only the ledger is known.
        """
        absent = self.without_run.total()
        sums = [
            ("runs = outcomes", self.runs, self.outcomes.total()),
            ("skipped = reasons", self.outcomes[FireOutcome.SKIPPED], self.skipped.total()),
        ]
        if proven:
            sums += [
                (
                    "expected + surplus = audited_runs + without_run + missing",
                    self.expected + self.surplus,
                    self.audited_runs + absent + self.missing,
                ),
                (
                    "audited_runs + new = runs + gone",
                    self.audited_runs + self.new,
                    self.runs + self.gone.total(),
                ),
            ]
        else:
            audited = (self.expected, self.surplus, self.audited_runs, absent, self.missing)
            sums.append(("what is not known", sum(audited) + self.new + self.gone.total(), 0))
        return [f"{told}: {left} and {right}" for told, left, right in sums if left != right]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found: dict[str, Any] = {name: getattr(self, name) for name in _NUMBERS}
        for name in _COUNTERS:
            counted = getattr(self, name)
            found[name] = {key: counted[key] for key in sorted(counted) if counted[key]}
        found["outcomes"] = {each.value: self.outcomes[each] for each in FireOutcome}
        return found


_COUNTERS = ("without_run", "gone", "outcomes", "skipped")
_NUMBERS = tuple(name for name in ProofSums.__dataclass_fields__ if name not in _COUNTERS)


def sums_from_dict(raw: Mapping[str, Any]) -> ProofSums:
    """What `as_dict` has written.

    Raises:
        KeyError, TypeError, ValueError: it is something else.
    """
    sums = ProofSums()
    for name in _NUMBERS:
        setattr(sums, name, _number(raw[name]))
    for name in _COUNTERS:
        getattr(sums, name).update({key: _number(each) for key, each in raw[name].items()})
    return sums


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedSums:
    """What the self-audit counted in an hour of the executors that are asked for."""

    status: HourStatus
    audited_at: int | None = None
    expected: int = 0
    surplus: int = 0
    runs: int = 0
    without_run: Mapping[str, int] = field(default_factory=dict)
    missing: int = 0

    @property
    def unrun(self) -> int:
        """Instants that had no run."""
        return sum(self.without_run.values()) + self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class HourProof:
    """One hour."""

    hour_at: int
    status: HourStatus
    audited_at: int | None
    sums: ProofSums


def prove_hour(
    hour_at: int, audited: AuditedSums, ledger: ProofSums, *, why_gone: GoneReason
) -> HourProof:
    """Join what should have been with what the ledger has.

    Args:
        ledger: the runs of the hour, counted.
        why_gone: why runs may be gone since the audit.
    """
    sums = ProofSums(hours=1)
    sums.add(ledger)
    if audited.status is HourStatus.AUDITED:
        sums.expected, sums.surplus = audited.expected, audited.surplus
        sums.audited_runs, sums.missing = audited.runs, audited.missing
        sums.without_run.update(audited.without_run)
        sums.new = max(0, ledger.runs - audited.runs)
        gone = max(0, audited.runs - ledger.runs)
        if gone:
            sums.gone[why_gone] = gone
    return HourProof(
        hour_at=hour_at, status=audited.status, audited_at=audited.audited_at, sums=sums
    )


def total_of(hours: Iterable[HourProof], *, proven: bool) -> ProofSums:
    """The sums of the hours that were audited for all triggers, or of the others."""
    total = ProofSums()
    for each in hours:
        if (each.status is HourStatus.AUDITED) == proven:
            total.add(each.sums)
    return total
