"""Another key for everything that is encrypted, while two admins go on."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, new_executor_id
from tests.admin.kit.rows import add_job, ask
from tests.admin.kit.services import ADMIN, World, actor_with
from tickwheel_admin.domain.errors import Conflict, NotFound
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.rotation import KeyRotation, RotationReport
from tickwheel_admin.services.secrets.service import Secrets
from tickwheel_admin.services.xxl_job.tokens import decrypt_token
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.admins import enter_admin, tell_status
from tickwheel_admin.store.xxl_job.executors import get_xxl_executor
from tickwheel_shared.protocol import RunRequest

OLD, NEW = bytes(range(32)), bytes(reversed(range(32)))
MARKER = "canary-7c1f9e"


def key_id(key: bytes) -> str:
    return Cipher([key]).current_key()


def rotate(database: Database, *keys: bytes) -> KeyRotation:
    return KeyRotation(database, Ids(database), Cipher(keys))


@pytest.mark.every_database
async def test_the_key_is_replaced_while_two_admins_start_runs(database: Database) -> None:
    executor_id = new_executor_id()
    parameters = '{"a":"${secret.KEY}"}'
    job_id = await add_job(database, executor_id=executor_id, parameters=parameters)

    async def admin(number: int, *keys: bytes) -> Admin:
        """One that was just restarted with these keys."""
        new = Admin(database, admin_id=number, cipher=Cipher(keys))
        await new.engine.membership.enter()
        status = new.engine.status()
        await database.run(tell_status, admin_id=number, status=status)
        return new

    async def runs_start(*admins: Admin) -> None:
        for each in admins:
            node = await each.add_node(executor_id, slots=1)
            await ask(database, job_id)
            await each.engine.dispatcher.run_once()
            (request,) = node.take(RunRequest)
            assert json.loads(bytes(request.parameters)) == {"a": MARKER}
            each.links.sessions.clear()

    async def put(name: str, *keys: bytes) -> None:
        secrets = Secrets(database, Ids(database), Events(), Cipher(keys))
        await secrets.put(ADMIN, executor_id, name, MARKER)

    one, two = await admin(1, OLD), await admin(2, OLD)
    await put("KEY", OLD)
    with pytest.raises(Conflict) as refusal:  # they could not read what it encrypts
        await rotate(database, NEW, OLD).rotate(ADMIN)
    assert (refusal.value.code, "admin-1, admin-2" in str(refusal.value)) == (
        "secret_key.unknown", True,
    )  # fmt: skip

    one = await admin(1, OLD, NEW)
    await runs_start(one, two)
    two = await admin(2, OLD, NEW)
    one = await admin(1, NEW, OLD)
    await put("BY_ONE", NEW, OLD)
    await runs_start(one, two)
    report = await rotate(database, NEW, OLD).rotate(ADMIN)
    assert (report.anew, report.kept, report.behind) == (1, 1, {"admin-2": key_id(OLD)})
    await put("BY_TWO", OLD, NEW)
    await runs_start(one, two)

    two = await admin(2, NEW, OLD)
    looked_at: list[int] = []
    report = await rotate(database, NEW, OLD).rotate(ADMIN, looked_at.append)
    assert report == RotationReport(
        key_id=key_id(NEW), anew=1, kept=2, unreadable=[], behind={}, not_known=[]
    )
    assert looked_at == [3, 3]
    one, two = await admin(1, NEW), await admin(2, NEW)
    await runs_start(one, two)


@pytest.mark.parametrize(
    ("keys", "code"), [(None, "secret_key.not_told"), ([], "secret_key.unknown")]
)
async def test_an_admin_that_may_lack_the_key_is_named_first(
    world: World, keys: list[str] | None, code: str
) -> None:
    """One of an earlier version, or started a moment ago; and one that has none."""
    executor_id = await world.executor()
    await world.secrets.put(ADMIN, executor_id, "KEY", MARKER)
    world.database.run_sync(enter_admin, admin_id=1, name="a1", url="http://a", version="1")
    status = "{}" if keys is None else json.dumps({"secret_keys": keys})
    world.database.run_sync(tell_status, admin_id=1, status=status)
    with pytest.raises(Conflict, match="a1") as refusal:
        await rotate(world.database, NEW, OLD).rotate(ADMIN)
    assert refusal.value.code == code
    if keys is None:
        report = await rotate(world.database, NEW, OLD).rotate(ADMIN, trusts_all=True)
        assert (report.anew, report.not_known) == (1, ["a1"])


async def test_access_tokens_too_and_what_no_key_reads_is_named(world: World) -> None:
    executor_id = await world.xxl_executors.create(
        ADMIN, name="orders", app_name="orders", token=MARKER
    )
    await world.secrets.put(ADMIN, executor_id, "KEY", MARKER)
    lost = Secrets(world.database, Ids(world.database), world.events, Cipher([bytes(32)]))
    await lost.put(ADMIN, executor_id, "LOST", MARKER)
    with pytest.raises(NotFound):
        await rotate(world.database, NEW, OLD).rotate(actor_with(Role.ADMIN, executor_id))

    report = await rotate(world.database, NEW, OLD).rotate(ADMIN)
    again = await rotate(world.database, NEW, OLD).rotate(ADMIN)

    assert (report.anew, report.kept, report.unreadable) == (2, 0, ["orders: LOST"])
    assert (again.anew, again.kept, again.unreadable) == (0, 2, ["orders: LOST"])
    stored = world.database.read_sync(lambda conn: get_xxl_executor(conn, executor_id))
    assert stored is not None
    assert decrypt_token(Cipher([NEW]), stored) == MARKER
    rows = world.rows(sa.select(tables.audit).where(tables.audit.c.action == "secret_key.rotated"))
    assert [json.loads(row.detail) for row in rows] == [{"key": key_id(NEW), "done": 2}]


async def test_a_value_that_is_set_meanwhile_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor_id = await world.executor()
    await world.secrets.put(ADMIN, executor_id, "KEY", "the former value")
    (old,) = world.database.read_sync(lambda conn: conn.execute(sa.select(tables.secret)).all())
    await world.secrets.put(ADMIN, executor_id, "KEY", MARKER)
    monkeypatch.setattr(
        "tickwheel_admin.services.secrets.rotation.page_secrets", lambda *_, **__: [old]
    )

    await rotate(world.database, NEW, OLD).rotate(ADMIN)

    (row,) = world.rows(sa.select(tables.secret))
    purpose = f"secret {executor_id} KEY"
    assert Cipher([OLD]).decrypt(row.ciphertext, purpose=purpose) == MARKER
