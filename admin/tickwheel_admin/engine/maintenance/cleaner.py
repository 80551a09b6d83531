"""Deletes old rows: ended runs, backfills, alarms and the audit past their retention, ended nodes,
stale sessions and tokens, sources of scripts that nothing has any more, and grants on deleted
executors.
"""

from __future__ import annotations

import asyncio

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.settings import InstallationSettings
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.store.alarms.alarms import remove_old_alarms
from tickwheel_admin.store.alarms.deliveries import remove_old_notifications
from tickwheel_admin.store.alarms.signals import remove_stale_signals
from tickwheel_admin.store.backfills.backfills import (
    end_resting_of_deleted_jobs,
    remove_old_backfills,
)
from tickwheel_admin.store.backfills.slices import JOB_DELETED
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.failures.groups import remove_old_groups
from tickwheel_admin.store.forecast.deadline_forecasts import remove_old_forecasts
from tickwheel_admin.store.jobs.routing_memory import forget_ended_nodes
from tickwheel_admin.store.jobs.scripts import remove_unused_sources
from tickwheel_admin.store.runs.errors import remove_unused_errors
from tickwheel_admin.store.runs.events.feed import number_events, remove_old_events
from tickwheel_admin.store.runs.retention import (
    RUNS_PER_BATCH,
    is_quiet,
    remove_ended_nodes,
    remove_old_runs,
    remove_stale_sessions,
    rest_after,
)
from tickwheel_admin.store.runs.spans import remove_old_spans
from tickwheel_admin.store.self_audit.periods import REMEMBERED_MS
from tickwheel_admin.store.system.audit import remove_old_audit
from tickwheel_admin.store.system.settings import read_settings
from tickwheel_admin.store.users.api_tokens import remove_expired_tokens
from tickwheel_admin.store.users.grants import remove_orphan_grants

log = structlog.get_logger(__name__)

DAY_MS = 86_400_000
ENDED_NODES_PER_BATCH = 500
NODES_PER_BATCH = 20  # each has a row for every job that counted its uses
NODE_DAYS = 7  # how long the console shows a node that ended
TOKEN_DAYS = 30  # how long it shows a token that expired
SOURCE_KEPT_MS = 3_600_000  # longer than any transaction that saves one
ROWS_PER_BATCH = 1_000  # of what has no rows of its own
ALARM_DAYS = 90  # how long closed alarms, ended messages and forecasts of deadlines are kept
EVENT_ROWS = 200  # of up to a thousand events
SIGNAL_DAYS = 7  # a signal that no evaluator took by then tells nobody any more


class Cleaner(Loop):
    """Small batches, far from the hot path."""

    interval_seconds = 60.0

    def __init__(self, store: Store, *, retention_days: int) -> None:
        """`retention_days` of ended runs applies unless the installation's settings set it."""
        super().__init__()
        self._store = store
        self._retention_days = retention_days
        self._untold = 0  # runs that were deleted, of which no line of the log tells yet
        self._tell_at = 0.0  # event loop time; not before, while more are deleted
        self._others_at = 0.0  # event loop time; the same of all else that is deleted
        self._errors_after = 0  # how far the texts of errors have been checked
        self._sources_after = ""  # the same of sources of scripts

    async def run_once(self) -> bool:
        settings = await self._store.read(read_settings)
        kept_ms = (settings.retention_days or self._retention_days) * DAY_MS
        removed, now = await self._remove_runs(kept_ms), asyncio.get_running_loop().time()
        if removed and now < self._others_at:
            return False  # the next pass comes soon
        self._others_at = now + self.interval_seconds
        return await self._remove_others(settings, kept_ms) and not removed

    async def _remove_others(self, settings: InstallationSettings, kept_ms: int) -> bool:
        """All but runs, once a minute also while those take longer; whether there may be more."""
        await self._store.run(
            remove_ended_nodes, older_than_ms=NODE_DAYS * DAY_MS, limit=ENDED_NODES_PER_BATCH
        )
        forgotten = await self._store.run(forget_ended_nodes, limit=NODES_PER_BATCH)
        await self._store.run(remove_stale_sessions, limit=ROWS_PER_BATCH)
        await self._store.run(
            remove_expired_tokens, older_than_ms=TOKEN_DAYS * DAY_MS, limit=ROWS_PER_BATCH
        )
        _, behind = await self._store.run(
            remove_unused_errors,
            older_than_ms=kept_ms,
            after=self._errors_after,
            limit=ROWS_PER_BATCH,
        )
        self._errors_after = behind or 0
        await self._store.run(_remove_groups, kept_ms)
        _, behind_source = await self._store.run(
            remove_unused_sources,
            older_than_ms=SOURCE_KEPT_MS,
            after=self._sources_after,
            limit=ROWS_PER_BATCH,
        )
        self._sources_after = behind_source or ""
        await self._store.run(remove_orphan_grants, limit=ROWS_PER_BATCH)
        unaudited = await self._store.run(
            remove_old_audit,
            older_than_ms=settings.audit_retention_days * DAY_MS,
            limit=ROWS_PER_BATCH,
        )
        unspanned = await self._store.run(_remove_spans)
        unalarmed = await self._store.run(_remove_alarms)
        unfilled = await self._store.run(
            remove_old_backfills, older_than_ms=kept_ms, limit=ROWS_PER_BATCH
        )
        # Numbers come from readers, as long as there are some; what is kept is counted by them.
        unread = await self._store.run(number_events, limit=ROWS_PER_BATCH)
        outdated = await self._store.run(remove_old_events, limit=EVENT_ROWS)
        await self._store.run(end_resting_of_deleted_jobs, reason=JOB_DELETED, limit=ROWS_PER_BATCH)
        if unfilled > ROWS_PER_BATCH or unread or outdated == EVENT_ROWS:
            return True
        return ROWS_PER_BATCH in (unaudited, unalarmed, unspanned) or forgotten == NODES_PER_BATCH

    async def _remove_runs(self, kept_ms: int) -> int:
        """One batch; the next pass begins after a rest if there may be more."""
        clock = asyncio.get_running_loop().time
        began = clock()
        removed = await self._store.run(
            remove_old_runs, older_than_ms=kept_ms, limit=RUNS_PER_BATCH
        )
        ended = clock()
        self._untold += removed
        if removed:
            # Also after a smaller batch: the logs of further ones may have been too long for it.
            quiet = await self._store.read(is_quiet)
            self.aim_at(ended + rest_after(ended - began, is_quiet=quiet))
        if self._untold and (not removed or ended >= self._tell_at):
            log.info("run.pruned", runs=self._untold)
            self._untold, self._tell_at = 0, ended + self.interval_seconds
        return removed


def _remove_groups(conn: sa.Connection, kept_ms: int) -> int:
    return remove_old_groups(conn, before=now_ms(conn) - kept_ms, limit=ROWS_PER_BATCH)


def _remove_spans(conn: sa.Connection) -> int:
    return remove_old_spans(conn, before=now_ms(conn) - REMEMBERED_MS, limit=ROWS_PER_BATCH)


def _remove_alarms(conn: sa.Connection) -> int:
    """How many rows went of the table of which most did."""
    now = now_ms(conn)
    before = now - ALARM_DAYS * DAY_MS
    return max(
        remove_old_notifications(conn, before=before, limit=ROWS_PER_BATCH),
        len(remove_old_alarms(conn, before=before, limit=ROWS_PER_BATCH)),
        remove_old_forecasts(conn, before=before, limit=ROWS_PER_BATCH),
        remove_stale_signals(conn, before=now - SIGNAL_DAYS * DAY_MS, limit=ROWS_PER_BATCH),
    )
