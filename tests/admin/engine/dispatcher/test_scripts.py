"""Runs of script jobs take their script with them."""

from __future__ import annotations

import msgspec
import pytest

from tests.admin.kit.engine import Admin, new_executor_id
from tests.admin.kit.rows import add_job, ask, change, get_run
from tickwheel_admin.domain.runs.run import NO_SCRIPTS
from tickwheel_admin.domain.runs.script import Script, sha256_of
from tickwheel_admin.services.runs.waiting import why_they_wait
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.executors.executors import set_scripts
from tickwheel_admin.store.jobs.configs import read_configs
from tickwheel_admin.store.jobs.scripts import ScriptSources
from tickwheel_shared.protocol import RunRequest

SOURCE = "echo 'Grüße 你好 🎉'\r\n\\ \"\t"


def script(source: str = SOURCE) -> Script:
    return Script(language="python", sha256=sha256_of(source), signature="sig", source=source)


async def claim(admin: Admin) -> None:
    while await admin.engine.dispatcher.run_once():
        pass


@pytest.mark.every_database
async def test_a_run_takes_the_script_of_its_revision(database: Database) -> None:
    admin, executor_id = Admin(database), new_executor_id()
    node = await admin.add_node(executor_id, handlers="script hello")
    with_script = await add_job(
        database, executor_id=executor_id, handler="script", script=script()
    )
    without = await add_job(database, executor_id=executor_id)
    for job_id in (with_script, without, with_script):
        await ask(database, job_id)
    await claim(admin)
    sent = node.take(RunRequest)
    assert len(sent) == 3
    for request in sent:
        if request.job_id == without:
            assert request.script is msgspec.UNSET
            continue
        assert isinstance(request.script, msgspec.Struct)
        assert (request.script.source, request.script.language) == (SOURCE, "python")
        assert (request.script.sha256, request.script.signature) == (sha256_of(SOURCE), "sig")


async def test_where_scripts_are_forbidden_their_runs_wait(database: Database) -> None:
    admin, executor_id = Admin(database), new_executor_id()
    node = await admin.add_node(executor_id, handlers="script hello")
    job_id = await add_job(database, executor_id=executor_id, handler="script", script=script())
    other = await add_job(database, executor_id=executor_id)
    await database.run(set_scripts, executor_id, allowed=False)
    run_id, _ = await ask(database, job_id), await ask(database, other)
    await claim(admin)
    assert [request.job_id for request in node.take(RunRequest)] == [other]
    run = await get_run(database, run_id)
    assert run.reason == NO_SCRIPTS
    configs = await database.read(read_configs, [(job_id, 1)])
    told = await database.read(why_they_wait, [(run, configs[job_id, 1])])
    assert told[run_id].code == "scripts_forbidden"
    await database.run(set_scripts, executor_id, allowed=True)
    await change(database, tables.run, run_id, due_at=0)
    await claim(admin)
    assert [request.run for request in node.take(RunRequest)] == [run_id]


async def test_sources_that_are_kept_in_memory_have_a_bound(database: Database) -> None:
    executor_id = new_executor_id()
    texts = [f"print({n})" for n in range(5)]
    for text in texts:
        await add_job(database, executor_id=executor_id, handler="script", script=script(text))
    sources = ScriptSources(most_bytes=30)
    for text in [*texts, *texts]:
        found = await database.read(sources.get_many, [sha256_of(text), "f" * 64])
        assert found == {sha256_of(text): text}
