"""Channels of alarms as documents: their secrets stay, or are named, and are never written."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema_rs
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.admin.kit.services import ADMIN, World, actor_with
from tests.admin.services.gitops.test_gitops import TEAM, applied, problems, told
from tests.admin.services.gitops.test_round_trip import exported
from tickwheel_admin.api.gitops.schema import schema_of_documents
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Role
from tickwheel_admin.services.alarms.channels import AlarmChannels
from tickwheel_admin.services.gitops.service import GitOps
from tickwheel_admin.services.secrets.channels import open_channel
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.store.alarms.channels import list_channels
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

URL = "https://hooks.slack.com/services/T0/B0/very-secret"
BILLING = {"type": "executor", "name": "billing"}
FROM_SECRET = {"url": {"executor": "billing", "secret": "SLACK"}}
EMAIL = {
    "type": "alarm_channel",
    "name": "mail",
    "kind": "email",
    "settings": {
        "host": "mail.example.com",
        "sender": "a@example.com",
        "recipients": "b@example.com\nc@example.com",
    },
}


def slack(**more: Any) -> dict[str, Any]:
    return {"type": "alarm_channel", "name": "ops", "kind": "slack", **more}


def channels_of(world: World) -> AlarmChannels:
    ids = Ids(world.database)
    return AlarmChannels(world.database, ids, world.events, world.cipher, languages=("en", "zh-CN"))


def secrets_of(world: World) -> dict[str, dict[str, str]]:
    found = world.database.read_sync(lambda conn: list_channels(conn, limit=10))
    return {each.name: dict(open_channel(world.cipher, each).secrets) for each in found}


async def with_secret(world: World, value: str = URL) -> None:
    executor = world.rows(sa.select(tables.executor.c.id))
    executor_id = executor[0].id if executor else await world.executor("billing")
    await world.secrets.put(ADMIN, executor_id, "SLACK", value)


@pytest.mark.every_database
async def test_a_secret_is_named_copied_and_followed(world: World) -> None:
    await with_secret(world)
    document = slack(secrets=FROM_SECRET)
    rule = {"type": "alarm_rule", "name": "r", "kind": "failed", "channels": ["ops"]}
    assert told(await applied(world, [rule, document])) == [("create", "ops"), ("create", "r")]
    assert secrets_of(world) == {"ops": {"url": URL}}
    assert told(await world.gitops.plan(ADMIN, [rule, document], owner=TEAM)) == []

    await with_secret(world, URL + "-2")  # it was replaced since
    plan = await applied(world, [rule, document | {"per_minute": 3}])
    (change,) = plan.changes
    assert change.differences == {
        "per_minute": (20, 3),
        "secrets.url": ("(stored)", "(secret SLACK of billing)"),
    }
    assert secrets_of(world) == {"ops": {"url": URL + "-2"}}
    assert told(await applied(world, [slack(per_minute=3, enabled=False), rule])) == [
        ("update", "ops")
    ]
    assert secrets_of(world) == {"ops": {"url": URL + "-2"}}  # left out: it stays

    plan = await world.gitops.plan(ADMIN, [rule], owner=TEAM, prune=True)
    assert [code for _, code in problems(plan)] == ["alarm_channel.in_use"]
    pruned = await applied(world, [rule | {"channels": []}], prune=True)
    assert told(pruned) == [("update", "r"), ("delete", "ops")]
    assert secrets_of(world) == {}
    noted = [action for action, _ in world.audit() if action.startswith("alarm_channel")]
    assert noted == [
        f"alarm_channel.{each}" for each in ("created", "updated", "updated", "deleted")
    ]


async def test_an_edit_by_hand_is_drift(world: World) -> None:
    await with_secret(world)
    await applied(world, [slack(secrets=FROM_SECRET)])
    channels = channels_of(world)
    (item,) = await channels.list(ADMIN)
    await channels.update(
        ADMIN, item.id, {"name": "ops", "kind": "slack", "per_minute": 7}, version=item.version
    )
    (change,) = (await world.gitops.plan(ADMIN, [slack()], owner=TEAM)).changes
    assert (change.is_drift, change.differences) == (True, {"per_minute": (7, 20)})


async def test_a_secret_that_is_nowhere_is_refused_with_what_to_do(world: World) -> None:
    await with_secret(world)
    wrong = {"url": {"executor": "billing", "secret": "OTHER"}}
    for secrets, refused in (
        (None, ("secrets.url", "gitops.channel_secret_missing")),
        ({"url": URL}, ("secrets.url", "gitops.secret_in_file")),
        (wrong, ("secrets.url.secret", "gitops.unknown_secret")),
        ({"url": {"secret": "SLACK"}}, ("secrets.url.executor", "required")),
        ({"uri": wrong["url"] | {"secret": "SLACK"}}, ("secrets.uri", "unknown_field")),
    ):
        plan = await world.gitops.plan(ADMIN, [slack(secrets=secrets)], owner=None)
        (first, *more) = problems(plan)
        assert first == (f"documents[0].{refused[0]}", refused[1])
        assert [code for _, code in more] == (
            ["gitops.channel_secret_missing"] if refused[1] == "unknown_field" else []
        )
        assert URL not in " ".join(each.message for each in plan.problems)
    plan = await world.gitops.plan(ADMIN, [slack()], owner=None)
    assert "by the API" in plan.problems[0].message


async def test_what_this_admin_cannot_read_is_not_written_over(world: World) -> None:
    await with_secret(world)
    await applied(world, [slack(secrets=FROM_SECRET)])
    other = Cipher([bytes(range(1, 33))])
    gitops = GitOps(world.database, Ids(world.database), world.events, other, languages=("en",))
    plan = await gitops.plan(ADMIN, [slack(per_minute=1)], owner=TEAM)
    assert problems(plan) == [("documents[0].secrets", "channel.unreadable")]
    plan = await gitops.plan(ADMIN, [slack(name="new", secrets=FROM_SECRET)], owner=TEAM)
    assert ("documents[0].secrets.url.secret", "gitops.secret_unreadable") in problems(plan)


async def test_a_login_does_not_follow_a_server_to_another_place(world: World) -> None:
    await with_secret(world)
    login = EMAIL | {
        "settings": EMAIL["settings"] | {"username": "u"},
        "secrets": {"password": {"executor": "billing", "secret": "SLACK"}},
    }
    await applied(world, [login])
    moved = login["settings"] | {"host": "evil.example.com"}
    plan = await world.gitops.plan(ADMIN, [EMAIL | {"settings": moved}], owner=TEAM)
    assert problems(plan) == [("documents[0].secrets.password", "channel.secret_needed")]
    forgotten = EMAIL | {"secrets": {"password": None}}
    (change,) = (await applied(world, [forgotten])).changes
    assert change.differences["secrets.password"] == ("(stored)", None)
    assert secrets_of(world) == {"mail": {}}
    assert told(await world.gitops.plan(ADMIN, [forgotten], owner=TEAM)) == []


async def test_only_administrators_see_and_plan_them(world: World) -> None:
    await with_secret(world)
    await applied(world, [slack(secrets=FROM_SECRET)])
    for actor in (
        actor_with(Role.DEVELOPER, ALL_EXECUTORS),
        actor_with(Role.ADMIN, world.rows(sa.select(tables.executor.c.id))[0].id),
        ADMIN.narrowed(Role.VIEWER, None),
    ):
        for name in ("ops", "other"):  # the answer does not tell which of them exists
            plan = await world.gitops.plan(
                actor, [slack(name=name, secrets=FROM_SECRET)], owner=None
            )
            assert problems(plan) == [("documents[0].type", "gitops.for_administrators")]
        assert told(await world.gitops.plan(actor, [], owner=TEAM, prune=True)) == []


_SETTINGS = st.fixed_dictionaries(
    {
        "host": st.sampled_from(["mail.example.com", "192.0.2.1"]),
        "sender": st.just("a@example.com"),
        "recipients": st.sampled_from(["b@example.com", "b@example.com, c@example.com"]),
    },
    optional={"security": st.sampled_from(["tls", "none", "starttls"]), "port": st.just("25")},
)
_CHANNELS = st.fixed_dictionaries(
    {"kind": st.just("email"), "settings": _SETTINGS}
) | st.fixed_dictionaries({"kind": st.just("slack"), "secrets": st.just(FROM_SECRET)})
_MORE = st.fixed_dictionaries(
    {},
    optional={
        "language": st.sampled_from(["en", "zh-CN"]),
        "time_zone": st.sampled_from(["Europe/Berlin", "UTC"]),
        "per_minute": st.integers(1, 60),
        "enabled": st.booleans(),
    },
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(parts=st.lists(st.tuples(_CHANNELS, _MORE), min_size=1, max_size=3))
def test_an_export_holds_no_secret_and_changes_nothing(
    world: World, parts: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    documents = [
        {"type": "alarm_channel", "name": f"c{n}-{each['kind']}", **each, **more}
        for n, (each, more) in enumerate(parts)
    ]
    asyncio.run(_round_trip(world, documents))


async def _round_trip(world: World, documents: list[dict[str, Any]]) -> None:
    await with_secret(world)
    await applied(world, documents)
    written = await exported(world)
    assert "very-secret" not in json.dumps(written)
    validator = jsonschema_rs.validator_for(schema_of_documents())
    for each in (*written, *documents):
        assert list(validator.iter_errors(each)) == []
    plan = await world.gitops.plan(ADMIN, written, owner=None)
    assert (problems(plan), told(plan)) == ([], [])
    assert plan.unchanged == len(written) > len(documents)
