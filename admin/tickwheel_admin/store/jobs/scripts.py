"""Sources of scripts, one row for each, however many revisions of however many jobs have it.

A source is never changed, so a cache of them is never wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.runs.script import Script
from tickwheel_admin.domain.workflows.graph import ScriptStep
from tickwheel_admin.store.database.batch import insert_values
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.tables import job_revision, script_source

_MOST_KEPT_BYTES = 16 * 1024 * 1024  # of sources, by one admin


def add_sources(conn: sa.Connection, scripts: Iterable[Script | None]) -> None:
    """Keep the sources that are given.

    Those that are kept already are written, too: who deletes unused ones (`remove_unused_sources`)
    waits for it, and then sees that somebody needs them.
    """
    sources = {each.sha256: each.source for each in scripts if each and each.source is not None}
    if not sources:
        return
    now = now_ms(conn)
    insert_values(
        conn,
        script_source,
        [(sha256, source, now) for sha256, source in sorted(sources.items())],
        columns=("sha256", "source", "given_at"),
        replace_duplicates_of=("sha256",),
    )


def remove_unused_sources(
    conn: sa.Connection, *, older_than_ms: int, after: str, limit: int
) -> tuple[int, str | None]:
    """Delete sources that were given before that last and that no revision has any more.

    Looks at `limit` of them, by hash. Whoever saves one of them meanwhile is not hindered.

    Args:
        older_than_ms: longer than any transaction takes.

    Returns:
        How many were deleted, and after which hash to go on; None: these were the last.
    """
    # Not EXISTS, for which PostgreSQL might read all revisions there are.
    used = (
        sa.select(job_revision.c.job_id)
        .where(job_revision.c.script_sha256 == script_source.c.sha256)
        .limit(1)
    )
    until = now_ms(conn) - older_than_ms
    rows = conn.execute(
        sa.select(
            script_source.c.sha256,
            script_source.c.given_at,
            used.correlate(script_source).scalar_subquery().label("job_id"),
        )
        .where(script_source.c.sha256 > after)
        .order_by(script_source.c.sha256)
        .limit(limit)
    ).all()
    hashes = [row.sha256 for row in rows if row.job_id is None and row.given_at < until]
    removed = 0
    if hashes:
        # Compared once more, on the row itself: somebody may have given the same source by now.
        unused = script_source.c.sha256.in_(hashes), script_source.c.given_at < until
        removed = conn.execute(sa.delete(script_source).where(*unused)).rowcount
    return removed, rows[-1].sha256 if len(rows) == limit else None


def read_sources(conn: sa.Connection, hashes: Collection[str]) -> dict[str, str]:
    """Sources by their hashes."""
    rows = conn.execute(
        sa.select(script_source.c.sha256, script_source.c.source).where(
            script_source.c.sha256.in_(sorted(hashes))
        )
    )
    return {row.sha256: row.source for row in rows}


def with_source(conn: sa.Connection, config: JobConfig) -> JobConfig:
    """The same with the sources of its scripts, if it has any."""
    hashes = _hashes(config)
    return _with_sources(config, read_sources(conn, hashes)) if hashes else config


def jobs_with_sources(conn: sa.Connection, jobs: Collection[Job]) -> list[Job]:
    """The same jobs with the sources of their scripts, read at once."""
    hashes = {each for job in jobs for each in _hashes(job.config)}
    sources = read_sources(conn, hashes) if hashes else {}
    return [replace(job, config=_with_sources(job.config, sources)) for job in jobs]


def _scripts(config: JobConfig) -> Iterator[Script]:
    if config.script is not None:
        yield config.script
    for step in () if config.workflow is None else config.workflow.steps:
        if isinstance(step.body, ScriptStep):
            yield step.body.script


def _hashes(config: JobConfig) -> set[str]:
    """Of the scripts whose sources are not there."""
    return {script.sha256 for script in _scripts(config) if script.source is None}


def _with_sources(config: JobConfig, sources: Mapping[str, str]) -> JobConfig:
    script, workflow = config.script, config.workflow
    if workflow is not None:
        config = replace(config, workflow=workflow.with_sources(sources))
    if script is None or script.source is not None:
        return config
    return replace(config, script=replace(script, source=sources.get(script.sha256)))


class ScriptSources:
    """Reads what is missing, keeps what was read; shared by the threads of one admin."""

    def __init__(self, *, most_bytes: int = _MOST_KEPT_BYTES) -> None:
        self._known: dict[str, str] = {}
        self._size = 0
        self._most = most_bytes

    def get_many(self, conn: sa.Connection, hashes: Iterable[str]) -> dict[str, str]:
        """The sources that exist, by hash."""
        wanted = set(hashes)
        found = {each: text for each in wanted if (text := self._known.get(each)) is not None}
        missing = wanted - found.keys()
        if missing:
            read = read_sources(conn, missing)
            found |= read
            size = sum(map(len, read.values()))
            if self._size + size > self._most:
                self._known, self._size = {}, 0  # rare; what is in use comes back
            self._known = {**self._known, **read}
            self._size += size
        return found
