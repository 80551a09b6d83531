"""The sums of the proof of the played time are those of the self-audit and of the ledger.

Called while the auditor plays: before a purge, after it, and after somebody changed the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from tests.simulation.history import History
from tickwheel_admin.domain.proof.fires import DEFAULT_LATE_MS
from tickwheel_admin.domain.proof.sums import (
    GoneReason,
    HourStatus,
    ProofSums,
    prove_hour,
    total_of,
)
from tickwheel_admin.engine.maintenance.self_audit import HourResult
from tickwheel_admin.services.proof.unrun import read_unrun
from tickwheel_admin.store.database.tables import self_audit_hour
from tickwheel_admin.store.proof.ledger import (
    FirePosition,
    audited_sums,
    count_fires,
    page_exceptions,
    page_fires,
)
from tickwheel_admin.store.self_audit.results import EVERYBODY, write_hour

PAGE = 7  # so few that pages end within one instant, too


def check_proof(
    conn: sa.Connection,
    audits: Mapping[int, HourResult],
    times: Sequence[tuple[int, int]],
    history: History,
) -> None:
    """Prove the played time by audits that were made a moment ago.

    What it writes is to be rolled back.
    """
    write_audits(conn, audits)
    sums = prove(conn, times)
    audit = sum((Counter(_counts(each)) for each in audits.values()), Counter())
    ledger = _ledger(conn, times)
    is_same = (
        sums.faults() == []
        and sums.gone.total() == sums.new == 0
        and sums.expected == audit["expected"]
        and sums.missing == audit["missing"]
        and sums.runs == ledger.total()
        and sum(sums.without_run.values()) == audit["absent"]
        and all(sums.skipped[reason] == n for (_, reason), n in ledger.items() if reason)
        and _by_state(sums) == _states(ledger)
    )
    if not is_same:
        history.violation(f"proof: {sums.as_dict()} of {audit} and {ledger}")
    listed, summed = _unrun(conn, times), sums.without_run + sums.skipped
    summed["missing"] += sums.missing
    if listed != +summed:
        history.violation(f"proof: {listed} are listed of {summed} that brought no work")


def write_audits(conn: sa.Connection, audits: Mapping[int, HourResult]) -> None:
    """As the loop does."""
    conn.execute(sa.delete(self_audit_hour))
    for hour_at, result in audits.items():
        ids = result.audited
        write_hour(
            conn,
            hour_at,
            result.counts,
            result.found,
            absences=result.absences,
            triggers=ids,
            audited=ids,
            now=hour_at,
        )


def prove(conn: sa.Connection, times: Sequence[tuple[int, int]]) -> ProofSums:
    """The sums of the played time, as it is written now."""
    audited = audited_sums(conn, from_at=times[0][0], to_at=times[-1][1], executors=None)
    hours = []
    for begin, end in times:
        ledger, exceptions = ProofSums(), 0
        after = None
        while page := page_fires(
            conn, from_at=begin, to_at=end, executors=None, after=after, limit=PAGE
        ):
            for fire in page:
                ledger.count(fire.counted(DEFAULT_LATE_MS))
                exceptions += fire.is_exception(DEFAULT_LATE_MS)
            after = FirePosition(scheduled_at=page[-1].scheduled_at, run_id=page[-1].id)
        listed = page_exceptions(
            conn, from_at=begin, to_at=end, executors=None, late_ms=DEFAULT_LATE_MS, limit=10**6
        )
        counted = ProofSums()
        for each in count_fires(
            conn, from_at=begin, to_at=end, executors=None, late_ms=DEFAULT_LATE_MS
        ):
            counted.count(each)
        assert counted == ledger, "the database counts other runs than were read"
        assert len(listed) == exceptions, "the list of exceptions is not that of the sums"
        assert audited[begin].status is HourStatus.AUDITED
        hours.append(prove_hour(begin, audited[begin], ledger, why_gone=GoneReason.UNKNOWN))
    return total_of(hours, proven=True)


def _unrun(conn: sa.Connection, times: Sequence[tuple[int, int]]) -> Counter[str]:
    """The instants that brought no work, as they are listed page by page, by cause."""
    causes: Counter[str] = Counter()
    for begin, end in times:
        after, keys = None, set()
        while page := read_unrun(conn, begin, executors=None, after=after, limit=PAGE):
            for key, each in page:
                assert key not in keys, "an instant is listed twice"
                keys.add(key)
                causes[each.cause] += begin <= each.at < end
            after = page[-1][0]
    return +causes


def _counts(result: HourResult) -> dict[str, int]:
    count = result.counts[EVERYBODY]
    return {
        "expected": count.expected,
        "missing": count.missing,
        "absent": count.absent.total(),
    }


def _ledger(conn: sa.Connection, times: Sequence[tuple[int, int]]) -> Counter[tuple[str, str]]:
    """Runs of fires by state, those that were skipped by reason, as SQL counts them."""
    rows = conn.execute(
        sa.text(
            "SELECT state, CASE WHEN state = 'skipped' THEN coalesce(reason, 'skipped') ELSE '' END"
            " AS reason, count(*) AS runs FROM run WHERE trigger_id IS NOT NULL AND fire_id IS NULL"
            " AND scheduled_at >= :begin AND scheduled_at < :until GROUP BY 1, 2"
        ),
        {"begin": times[0][0], "until": times[-1][1]},
    )
    return Counter({(row.state, row.reason): row.runs for row in rows})


def _states(ledger: Counter[tuple[str, str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (state, _), runs in ledger.items():
        found["open" if state in ("queued", "dispatched", "running") else state] += runs
    return +found


def _by_state(sums: ProofSums) -> Counter[str]:
    """Its outcomes, with what succeeded at a later try among what succeeded."""
    found = Counter({str(key): number for key, number in sums.outcomes.items()})
    found["succeeded"] += found.pop("retried", 0)
    return +found
