"""Sources of scripts go when nothing has them any more, also beside somebody who saves one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import World
from tests.admin.services.jobs.test_scripts import AUTHOR, FIRST, SECOND, script_job
from tickwheel_admin.domain.input.script import parse_script
from tickwheel_admin.engine.maintenance.cleaner import SOURCE_KEPT_MS, Cleaner
from tickwheel_admin.services.jobs.tries import ScriptTries
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.jobs import add_revision, get_job
from tickwheel_admin.store.jobs.scripts import remove_unused_sources
from tickwheel_admin.store.runs.retention import delete_runs

TRIED = "echo tried\n"
LONG_AGO = sa.update(tables.script_source).values(given_at=1)


def sources(world: World) -> set[str]:
    return {row.source for row in world.rows(sa.select(tables.script_source.c.source))}


async def tried(world: World, executor_id: int, job_id: int, source: str) -> int:
    """The run of a try."""
    tries = ScriptTries(world.database, Ids(world.database), world.events)
    (node,) = world.rows(sa.select(tables.node.c.id)) or [None]
    node_id = node.id if node else world.node(executor_id, handlers=["script"])
    raw = {"language": "shell", "source": source}
    return await tries.start(AUTHOR, job_id, raw, node_id=node_id)


@pytest.mark.every_database
async def test_a_source_goes_with_the_last_try_of_it(world: World, executor_id: int) -> None:
    job_id = await script_job(world, executor_id)
    runs = [await tried(world, executor_id, job_id, each) for each in (TRIED, TRIED, FIRST)]

    def removed(*, limit: int = 100) -> int:
        after: str | None = ""
        total = 0
        while after is not None:
            count, after = world.database.run_sync(
                remove_unused_sources, older_than_ms=SOURCE_KEPT_MS, after=after, limit=limit
            )
            total += count
        return total

    world.change(LONG_AGO)
    world.database.run_sync(delete_runs, runs[:1])
    assert removed(limit=1) == 0
    world.database.run_sync(delete_runs, runs[1:])
    await tried(world, executor_id, job_id, "echo just now\n")
    world.change(sa.delete(tables.job_revision).where(tables.job_revision.c.revision < 0))
    assert removed(limit=1) == 1
    assert sources(world) == {FIRST, SECOND, "echo just now\n"}
    world.change(LONG_AGO)
    await Cleaner(world.database, retention_days=30).run_once()
    assert sources(world) == {FIRST, SECOND}


@pytest.mark.every_database(but=("sqlite",))  # there, one transaction at a time writes
async def test_a_source_that_is_saved_meanwhile_stays(world: World, executor_id: int) -> None:
    job_id = await script_job(world, executor_id)
    run_id = await tried(world, executor_id, job_id, TRIED)
    world.database.run_sync(delete_runs, [run_id])
    world.change(LONG_AGO)
    deleting: list[str] = []

    def save(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
        """After unused sources were looked for, and before they are deleted."""
        if statement.startswith("DELETE FROM script_source") and not deleting:
            deleting.append(statement)
            with world.database.engine.begin() as other:
                saved = get_job(other, job_id)
                assert saved is not None
                script = parse_script({"language": "shell", "source": TRIED})
                config = replace(saved.config, script=script)
                add_revision(other, job_id, 3, config, now=world.now, by="ada")

    sa.event.listen(world.database.engine, "before_cursor_execute", save)
    count, _ = world.database.run_sync(
        remove_unused_sources, older_than_ms=SOURCE_KEPT_MS, after="", limit=100
    )
    assert deleting
    assert (count, sources(world)) == (0, {FIRST, SECOND, TRIED})
