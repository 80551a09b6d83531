"""The audit of the played time finds nothing, also after a purge; and finds what SQL changes.

Where the database's clock was set back, edits may have taken back what was planned for the time
that came twice; nothing keeps that, so nothing is asked.
"""

from __future__ import annotations

from random import Random
from typing import Any

import sqlalchemy as sa

from tests.simulation.checks.proof import check_proof
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tickwheel_admin.engine.maintenance.self_audit import HourResult, audit_triggers
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs.purge import PurgePosition, PurgeScope, find_purgeable, purge_runs
from tickwheel_admin.store.self_audit.past import ended_ids, trigger_ids

HOUR_MS = 3_600_000


def check_self_audit(database: SimDatabase, history: History, random: Random) -> None:
    """Play the auditor of all hours, three times."""
    if database.went_back:
        return
    times = _hours(database)
    for found in _audit(database, times, history).found:
        history.violation(f"self-audit: trigger {found.trigger_id} at {found.at}: {found.what}")
    if history.violations:
        return
    _purge_some(database, random)
    for found in _audit(database, times, history).found:
        history.violation(f"purged, trigger {found.trigger_id} at {found.at}: {found.what}")
    _tamper(database, times, history, random)


def _hours(database: SimDatabase) -> list[tuple[int, int]]:
    [row] = database.rows("SELECT min(created_at) AS first_at FROM job")
    now = database.now()
    first = row.first_at - row.first_at % HOUR_MS
    # What is not over yet is audited up to now.
    return [(at, min(at + HOUR_MS, now)) for at in range(first, now, HOUR_MS)]


def _audit(database: SimDatabase, times: list[tuple[int, int]], history: History) -> HourResult:
    def audit(conn: sa.Connection) -> HourResult:
        result = HourResult()
        audits: dict[int, HourResult] = {}
        for begin, end in times:
            ids = {*trigger_ids(conn, 0, limit=1_000), *ended_ids(conn, since=begin)}
            part = audit_triggers(conn, ids, begin=begin, end=end)
            for executor_id, count in part.counts.items():
                told = count.happened + sum(count.explained.values()) + count.missing
                assert count.expected == told, "the counts do not add up"
                result.counts[executor_id].add(count)
            result.found += part.found
            audits[begin] = part
        check_proof(conn, audits, times, history)
        return result

    return database.transact(audit, commit=False)


def _purge_some(database: SimDatabase, random: Random) -> None:
    jobs = [row.id for row in database.rows("SELECT id FROM job ORDER BY id")]
    scope = PurgeScope(
        job_id=random.choice(jobs), until=database.now(), keep_newest=random.choice((None, 0, 3))
    )

    def purge(conn: sa.Connection) -> None:
        purge_runs(conn, find_purgeable(conn, scope, PurgePosition()).runs)

    database.transact(purge, commit=True)


def _tamper(
    database: SimDatabase, times: list[tuple[int, int]], history: History, random: Random
) -> None:
    """Delete one fire and double another one, as somebody with SQL would."""
    fires = database.rows(
        "SELECT r.id, r.trigger_id, r.scheduled_at FROM run r WHERE r.trigger_id IS NOT NULL"
        " AND r.fire_id IS NULL AND r.reason IS NOT 'misfire' AND r.state = 'succeeded'"
        " AND NOT EXISTS (SELECT 1 FROM run_purge p WHERE p.job_id = r.job_id)"
        " AND NOT EXISTS (SELECT 1 FROM pause_period)"
        " AND NOT EXISTS (SELECT 1 FROM executor WHERE paused_at IS NOT NULL)"
        ' AND EXISTS (SELECT 1 FROM "trigger" t WHERE t.id = r.trigger_id AND t.calendar IS NULL'
        # Of a fixed delay, something must name the fire: the next one, or the trigger.
        " AND (t.spec NOT LIKE '%fixed_delay%' OR t.last_fire_at = r.scheduled_at"
        " OR EXISTS (SELECT 1 FROM run n WHERE n.trigger_id = t.id"
        " AND n.follows_at = r.scheduled_at)))"
        " ORDER BY r.id"
    )
    history.note("self-audit", f"{len(fires)} fires to tamper with")
    if len(fires) < 2:
        return
    gone, twice = random.sample(fires, 2)

    def tamper(conn: sa.Connection) -> None:
        conn.execute(sa.delete(run).where(run.c.id == gone.id))
        written = sa.select(*(column for column in run.c if column.computed is None))
        row: dict[str, Any] = dict(conn.execute(written.where(run.c.id == twice.id)).one()._mapping)
        row |= {"id": 10**9, "shard_index": row["shard_index"] + 1_000, "request_key": None}
        conn.execute(sa.insert(run).values(row))

    database.transact(tamper, commit=True)
    found = {
        (each.trigger_id, each.at, each.what.value)
        for each in _audit(database, times, history).found
    }
    for fire, what in ((gone, "missing"), (twice, "doubled")):
        if (fire.trigger_id, fire.scheduled_at, what) not in found:
            history.violation(
                f"self-audit: trigger {fire.trigger_id} at {fire.scheduled_at} was made {what}"
            )
    if len(found) != 2:
        history.violation(f"self-audit: {len(found)} differences where two were made")
