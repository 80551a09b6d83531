"""Sources of scripts, one row for each, however many revisions of however many jobs have it.

Rows are never changed, so a cache of them is never wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.jobs.script import Script
from tickwheel_admin.store.database.batch import insert_values
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.tables import script_source

_MOST_KEPT_BYTES = 16 * 1024 * 1024  # of sources, by one admin


def add_sources(conn: sa.Connection, scripts: Iterable[Script | None]) -> None:
    """Keep the sources that are given and not kept yet."""
    sources = {each.sha256: each.source for each in scripts if each and each.source is not None}
    if not sources:
        return
    now = now_ms(conn)
    insert_values(
        conn,
        script_source,
        [(sha256, source, now) for sha256, source in sorted(sources.items())],
        columns=("sha256", "source", "created_at"),
        ignore_duplicates_of=("sha256",),
    )


def read_sources(conn: sa.Connection, hashes: Collection[str]) -> dict[str, str]:
    """Sources by their hashes."""
    rows = conn.execute(
        sa.select(script_source.c.sha256, script_source.c.source).where(
            script_source.c.sha256.in_(sorted(hashes))
        )
    )
    return {row.sha256: row.source for row in rows}


def with_source(conn: sa.Connection, config: JobConfig) -> JobConfig:
    """The same with the source of its script, if it has one."""
    script = config.script
    if script is None or script.source is not None:
        return config
    source = read_sources(conn, [script.sha256]).get(script.sha256)
    return replace(config, script=replace(script, source=source))


def jobs_with_sources(conn: sa.Connection, jobs: Collection[Job]) -> list[Job]:
    """The same jobs with the sources of their scripts, read at once."""
    hashes = {each.config.script.sha256 for each in jobs if each.config.script is not None}
    sources = read_sources(conn, hashes) if hashes else {}
    return [
        each
        if (script := each.config.script) is None
        else replace(
            each,
            config=replace(each.config, script=replace(script, source=sources.get(script.sha256))),
        )
        for each in jobs
    ]


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
