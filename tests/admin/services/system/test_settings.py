"""Settings of the installation: who may change them, what they refuse, and what follows them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.served import fresh_store
from tests.admin.kit.services import ADMIN, actor_with
from tests.support.lost_answers import LosingAnswers
from tickwheel_admin.domain.errors import InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.settings import InstallationSettings
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Role
from tickwheel_admin.engine.maintenance.cleaner import Cleaner
from tickwheel_admin.services.system.settings import Settings
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.system.settings import read_settings

SET: dict[str, Any] = {
    "instance_name": " prod-eu ",
    "retention_days": 7,
    "audit_retention_days": 30,
    "default_timezone": "Europe/Berlin",
}


async def audited(store: Database) -> list[dict[str, Any]]:
    rows = await store.read(
        lambda conn: list(
            conn.execute(
                sa.select(tables.audit.c.detail)
                .where(tables.audit.c.action == "settings.updated")
                .order_by(tables.audit.c.at)
            ).scalars()
        )
    )
    return [json.loads(row) for row in rows]


@pytest.mark.every_database
async def test_settings_hold_for_every_admin_and_are_audited(database: Database) -> None:
    settings = Settings(database, Ids(database))
    assert await settings.get() == InstallationSettings()
    await settings.save(ADMIN, SET)
    expected = InstallationSettings(
        instance_name="prod-eu",
        retention_days=7,
        audit_retention_days=30,
        default_timezone="Europe/Berlin",
    )
    assert settings.known == expected
    assert await Settings(database, Ids(database)).get() == expected
    await settings.save(ADMIN, SET)  # changes nothing, so nobody changed anything
    await settings.save(ADMIN, SET | {"retention_days": None})
    assert (await audited(database))[1:] == [
        {"changes": {"retention_days": {"before": 7, "after": None}}}
    ]


async def test_a_change_whose_answer_was_lost_is_one_change(database: Database) -> None:
    store = LosingAnswers(database)
    await Settings(store, Ids(database)).save(ADMIN, SET)
    assert len(await audited(database)) == 1


@pytest.mark.every_database(nightly=True)
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"instance_name": "x" * 41}, ("instance_name", "too_long")),
        ({"instance_name": "a\nb"}, ("instance_name", "control_characters")),
        ({"retention_days": 0}, ("retention_days", "out_of_range")),
        ({"audit_retention_days": "1"}, ("audit_retention_days", "wrong_type")),
        ({"audit_retention_days": 29}, ("audit_retention_days", "out_of_range")),
        ({"default_timezone": "Berlin"}, ("default_timezone", "timezone.unknown")),
        ({"brand": "mine"}, ("brand", "unknown_field")),
    ],
)
async def test_what_breaks_a_rule_is_refused_whole(
    database: Database, changes: dict[str, Any], problem: tuple[str, str]
) -> None:
    settings = Settings(database, Ids(database))
    before = await settings.get()
    with pytest.raises(InvalidInput) as refused:
        await settings.save(ADMIN, SET | changes)
    assert [(each.field, each.code) for each in refused.value.problems] == [problem]
    assert await settings.get() == before


@pytest.mark.every_database(nightly=True)
async def test_only_admins_of_all_executors_change_them(database: Database) -> None:
    settings = Settings(database, Ids(database))
    with pytest.raises(NotAllowed):
        await settings.save(actor_with(Role.DEVELOPER, ALL_EXECUTORS), SET)
    with pytest.raises(NotFound):
        await settings.save(actor_with(Role.ADMIN, 5), SET)


async def test_the_cleaner_keeps_runs_as_long_as_the_settings_say(tmp_path: Any) -> None:
    """Not as long as its own configuration: every admin deletes for all."""
    async with fresh_store(tmp_path, lambda: 100 * 86_400_000) as store:
        settings = Settings(store, Ids(store))
        await store.run(_add_run_of_day_90)
        cleaner = Cleaner(store, retention_days=1)
        await settings.save(ADMIN, {"retention_days": 11})
        await cleaner.run_once()
        assert await store.read(_runs) == 1
        await settings.save(ADMIN, {"retention_days": 9})
        await cleaner.run_once()
        assert await store.read(_runs) == 0


def _add_run_of_day_90(conn: sa.Connection) -> None:
    at = 90 * 86_400_000
    values: dict[str, Any] = dict.fromkeys(
        ("id", "executor_id", "job_id", "job_revision", "attempt", "tries", "shard_total"), 1
    )
    values |= dict.fromkeys(("scheduled_at", "created_at", "due_at"), at)
    values |= dict.fromkeys(("shard_index", "priority", "log_lines"), 0)
    values |= {"origin": "manual", "state": "succeeded"}
    conn.execute(sa.insert(tables.run).values(values))


def _runs(conn: sa.Connection) -> int:
    return conn.execute(sa.select(sa.func.count()).select_from(tables.run)).scalar_one()


@pytest.mark.every_database
async def test_values_of_a_newer_version_are_left_out(database: Database) -> None:
    """An older admin beside a newer one goes on."""

    def change(conn: sa.Connection) -> InstallationSettings:
        named = tables.setting.c.name == "installation"
        conn.execute(sa.delete(tables.setting).where(named))
        value = '{"instance_name": "new", "colour": "green"}'
        conn.execute(sa.insert(tables.setting).values(name="installation", value=value))
        return read_settings(conn)

    assert await database.run(change) == InstallationSettings(instance_name="new")
