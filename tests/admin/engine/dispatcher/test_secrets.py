"""Secrets in the claim: sent to the node, never stored; a run without its secret waits."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, new_executor_id
from tests.admin.kit.rows import add_job, ask, change, get_run, now, states
from tests.admin.kit.services import ADMIN, SECRET_KEY
from tests.admin.kit.work_counter import counted
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.runs.waiting import why_they_wait
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.service import Secrets
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import read_configs
from tickwheel_shared.protocol import RunRequest

MARKER = "canary-7c1f9e"
PASSWORD = '{"password":"${secret.PASSWORD}","user":"ada"}'


def secrets_of(database: Database, cipher: Cipher) -> Secrets:
    return Secrets(database, Ids(database), Events(), cipher)


async def waits_for(database: Database, run_id: int) -> str | None:
    run = await get_run(database, run_id)

    def read(conn: sa.Connection) -> str | None:
        config = read_configs(conn, {(run.job_id, 1)})[run.job_id, 1]
        found = why_they_wait(conn, [(run, config)]).get(run_id)
        return None if found is None else f"{found.code} {found.params.get('names')}"

    return await database.read(read)


async def stored_texts(database: Database) -> str:
    """Everything that the database has."""
    rows = []
    for table in tables.metadata.sorted_tables:
        rows += await database.read(lambda conn, t=table: conn.execute(sa.select(t)).all())
    return repr(rows)


@pytest.mark.every_database
async def test_a_secret_is_sent_to_the_node_and_stored_nowhere(database: Database) -> None:
    executor_id, cipher = new_executor_id(), Cipher([SECRET_KEY])
    admin, secrets = Admin(database, cipher=cipher), secrets_of(database, cipher)
    node = await admin.add_node(executor_id)
    job_id = await add_job(database, executor_id=executor_id, parameters=PASSWORD)
    await secrets.put(ADMIN, executor_id, "PASSWORD", MARKER)
    own = await ask(database, job_id)
    laid_over = await ask(
        database, job_id, parameters='{"password":"${secret.PASSWORD}","user":"${secret.PASSWORD}"}'
    )

    await admin.engine.dispatcher.run_once()

    sent = {each.run: each for each in node.take(RunRequest)}
    assert json.loads(bytes(sent[own].parameters)) == {"password": MARKER, "user": "ada"}
    # What a person adds is text, even if it looks like a reference.
    given = {"password": MARKER, "user": "${secret.PASSWORD}"}
    assert json.loads(bytes(sent[laid_over].parameters)) == given
    assert [each.secrets for each in sent.values()] == [[MARKER]] * 2
    assert MARKER not in repr(sent) + await stored_texts(database)
    (item,) = await secrets.list(ADMIN, executor_id)
    assert item.last_used_at is not None


@pytest.mark.every_database
async def test_a_run_waits_for_a_secret_that_is_missing_or_unreadable(database: Database) -> None:
    executor_id, cipher = new_executor_id(), Cipher([SECRET_KEY])
    admin = Admin(database, cipher=cipher)
    other = secrets_of(database, Cipher([bytes(32)]))  # an admin with another key
    node = await admin.add_node(executor_id)
    job_id = await add_job(database, executor_id=executor_id, parameters=PASSWORD)
    run_id = await ask(database, job_id)
    free = await ask(database, await add_job(database, executor_id=executor_id))

    await admin.engine.dispatcher.run_once()

    assert [each.run for each in node.take(RunRequest)] == [free]  # it hides no others
    assert await states(database, run_id) == ["queued secret_missing"]
    assert await waits_for(database, run_id) == "secret PASSWORD"

    await other.put(ADMIN, executor_id, "PASSWORD", MARKER)
    await change(database, tables.run, run_id, due_at=await now(database))
    assert await waits_for(database, run_id) == "starting None"
    await admin.engine.dispatcher.run_once()
    assert await states(database, run_id) == ["queued secret_unreadable"]
    assert await waits_for(database, run_id) == "secret PASSWORD"

    await secrets_of(database, cipher).put(ADMIN, executor_id, "PASSWORD", MARKER)
    await change(database, tables.run, run_id, due_at=await now(database))
    await admin.engine.dispatcher.run_once()
    (request,) = node.take(RunRequest)
    assert MARKER in bytes(request.parameters).decode()


async def test_references_cost_one_query_a_claim_and_others_none(database: Database) -> None:
    executor_id, cipher = new_executor_id(), Cipher([SECRET_KEY])
    admin, secrets = Admin(database, cipher=cipher), secrets_of(database, cipher)
    node = await admin.add_node(executor_id, slots=100)
    plain = await add_job(database, executor_id=executor_id, parameters='{"a":"${b}"}')
    jobs = [
        await add_job(database, executor_id=executor_id, parameters=f'{{"a":"${{secret.S{n}}}"}}')
        for n in range(2)
    ]
    for n in range(2):
        await secrets.put(ADMIN, executor_id, f"S{n}", f"{MARKER}{n}")

    async def statements(*job_ids: int) -> int:
        for job_id in job_ids:
            await ask(database, job_id)
        async with counted(database) as work:
            await admin.engine.dispatcher.run_once()
        assert len(node.take(RunRequest)) == len(job_ids)
        return work.statements

    await statements(plain, *jobs)  # warm
    assert await statements(plain, *jobs) == await statements(plain, plain, plain) + 1
