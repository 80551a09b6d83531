"""Roles as documents: who may apply them, and the ways in which somebody tries to get more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.admin.kit.served import services_over
from tests.admin.services.gitops.test_gitops import problems, told
from tickwheel_admin.api.gitops.schema import schema_of_documents
from tickwheel_admin.domain.errors import InvalidInput, NotAllowed
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Grant, Role, everywhere
from tickwheel_admin.services.gitops.export import ExportChoice
from tickwheel_admin.services.gitops.objects import ObjectPlan, ObjectType
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database.database import Database

TEAM = "platform"


@pytest.fixture
def services(database: Database) -> Iterator[Services]:
    services = services_over(database)
    yield services
    services.close()


def roles(name: str, *given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "user_roles", "name": name, "roles": list(given)}


def role(role: Role, executor: str | None = None, **more: Any) -> dict[str, Any]:
    return {"role": role.value, **({} if executor is None else {"executor": executor}), **more}


async def user(services: Services, name: str, grants: dict[int, Grant] | None = None) -> int:
    return (await services.users.create(COMMAND_LINE, name, grants=grants or {})).id


async def admin_of_all(services: Services, name: str = "root") -> Actor:
    """An administrator with a session."""
    user_id = await user(services, name, everywhere(Role.ADMIN))
    return Actor(user_id=user_id, name=name, grants={ALL_EXECUTORS: Role.ADMIN})


async def token_of(services: Services, name: str, **scope: Any) -> Actor:
    secret = await services.api_tokens.create_for(COMMAND_LINE, name, name="ci", **scope)
    actor = await services.api_tokens.actor_of(secret, address="192.0.2.1")
    assert actor is not None
    return actor


async def grants(services: Services, name: str) -> dict[int, Grant]:
    return (await services.users.find(COMMAND_LINE, name)).grants


async def applied(
    services: Services, documents: list[Any], actor: Actor = COMMAND_LINE, **more: Any
) -> ObjectPlan:
    plan = await services.gitops.plan(actor, documents, owner=TEAM, **more)
    assert problems(plan) == []
    return await services.gitops.apply(
        actor, documents, owner=TEAM, fingerprint=plan.fingerprint, **more
    )


async def refused(services: Services, actor: Actor, documents: list[Any]) -> str:
    """The code with which an application is refused that follows its plan."""
    plan = await services.gitops.plan(actor, documents, owner=None)
    if plan.problems:
        with pytest.raises(InvalidInput):
            await services.gitops.apply(actor, documents, owner=None, fingerprint=plan.fingerprint)
        return plan.problems[0].code
    assert not plan.is_allowed
    with pytest.raises(NotAllowed) as error:
        await services.gitops.apply(actor, documents, owner=None, fingerprint=plan.fingerprint)
    return error.value.code


@pytest.mark.every_database
async def test_roles_are_given_shown_as_drift_and_taken_away(services: Services) -> None:
    root = await admin_of_all(services)
    await user(services, "olga")
    billing = {"type": "executor", "name": "billing"}
    wanted = roles("olga", role(Role.VIEWER), role(Role.DEVELOPER, "billing", scripts=True))
    plan = await applied(services, [wanted, billing], root)  # the executor is new in it
    assert told(plan) == [("create", "billing"), ("update", "olga")]
    held = await grants(services, "olga")
    [executor_id] = held.keys() - {ALL_EXECUTORS}
    assert held == {
        ALL_EXECUTORS: Grant(Role.VIEWER),
        executor_id: Grant(Role.DEVELOPER, scripts=True),
    }
    assert told(await services.gitops.plan(root, [wanted, billing], owner=TEAM)) == []
    olga = (await services.users.find(root, "olga")).id
    await services.users.set_grants(root, olga, everywhere(Role.OPERATOR))
    [change] = (await services.gitops.plan(root, [wanted, billing], owner=TEAM)).changes
    assert change.is_drift
    assert change.differences["roles"][0] == [role(Role.OPERATOR)]
    await applied(services, [wanted, billing], root)
    assert told(await applied(services, [billing], root, prune=True)) == [("delete", "olga")]
    assert await grants(services, "olga") == {}  # the user stays
    assert told(await services.gitops.plan(root, [billing], owner=TEAM, prune=True)) == []


async def test_tokens_take_away_and_never_give(services: Services) -> None:
    root = await admin_of_all(services)
    await user(services, "eve", everywhere(Role.DEVELOPER))
    billing = await services.executors.create(root, name="billing")
    token = await token_of(services, "root")
    for more in (
        [role(Role.ADMIN)],
        [role(Role.DEVELOPER), role(Role.ADMIN, "billing")],
        [role(Role.DEVELOPER, scripts=True)],
        [role(Role.DEVELOPER), role(Role.DEVELOPER, "billing", scripts=True)],
    ):
        code = await refused(services, token, [roles("eve", *more)])
        assert code == "gitops.roles_not_by_token"
    before = await grants(services, "eve")
    assert before == everywhere(Role.DEVELOPER)
    await applied(services, [roles("eve", role(Role.VIEWER))], token)
    assert await grants(services, "eve") == everywhere(Role.VIEWER)
    narrower = roles("eve", role(Role.VIEWER, "billing"))
    await applied(services, [narrower], token)
    assert await grants(services, "eve") == {billing.id: Grant(Role.VIEWER)}


async def test_who_is_no_administrator_of_all_gets_nowhere(services: Services) -> None:
    root = await admin_of_all(services)
    billing = (await services.executors.create(root, name="billing")).id
    await user(services, "oscar", everywhere(Role.OPERATOR))
    await user(services, "local", {billing: Grant(Role.ADMIN)})
    tokens = [
        await token_of(services, "oscar"),
        await token_of(services, "local"),
        await token_of(services, "root", executors=[billing]),
    ]
    people = [Actor(user_id=9, name="oscar", grants={ALL_EXECUTORS: Role.DEVELOPER})]
    for actor in (*tokens, *people):
        for name in ("oscar", "local", "root", "nobody"):  # nor learns who is there
            documents = [roles(name, role(Role.ADMIN))]
            assert await refused(services, actor, documents) == "gitops.for_administrators"
        parts = services.gitops.export(actor, ExportChoice(types=[ObjectType.USER_ROLES]))
        assert [each async for part in parts for each in part] == []
    viewer = await services.api_tokens.create_for(
        COMMAND_LINE, "root", name="plan", role=Role.VIEWER
    )
    actor = await services.api_tokens.actor_of(viewer, address="192.0.2.1")
    assert actor is not None
    documents = [roles("oscar", role(Role.ADMIN))]
    assert await refused(services, actor, documents) == "gitops.for_administrators"


@pytest.mark.every_database
async def test_an_administrator_is_always_left(services: Services) -> None:
    root = await admin_of_all(services)
    await user(services, "anna")
    plan = await services.gitops.plan(COMMAND_LINE, [roles("root")], owner=None)
    assert problems(plan) == [("documents[0]", "user.last_admin")]
    with pytest.raises(InvalidInput):
        await services.gitops.apply(
            COMMAND_LINE, [roles("root")], owner=None, fingerprint=plan.fingerprint
        )
    # Whoever is given the role comes first, in whatever order files say it.
    handed_over = [roles("root", role(Role.VIEWER)), roles("anna", role(Role.ADMIN))]
    plan = await services.gitops.plan(root, handed_over, owner=None)
    assert problems(plan) == [("documents[0]", "user.own_grants")]  # not from oneself
    await applied(services, handed_over)
    assert await grants(services, "root") == everywhere(Role.VIEWER)
    plan = await services.gitops.plan(COMMAND_LINE, [], owner=TEAM, prune=True)
    assert [code for _, code in problems(plan)] == ["user.last_admin"]


async def test_what_is_wrong_is_told_at_its_place(services: Services) -> None:
    await user(services, "olga")
    wrong = [
        roles("nobody"),
        roles("olga", {"executor": "nowhere", "role": "viewer"}, {"role": "god", "x": 1}),
        {"type": "user_roles", "name": "anna", "roles": []},
    ]
    plan = await services.gitops.plan(COMMAND_LINE, wrong, owner=None)
    assert problems(plan) == [
        ("documents[0].name", "gitops.unknown_user"),
        ("documents[1].roles[0].executor", "workflow.unknown_executor_name"),
        ("documents[1].roles[1].x", "unknown_field"),
        ("documents[1].roles[1].role", "not_one_of"),
        ("documents[2].name", "gitops.unknown_user"),
    ]
    for fields, code in (
        ({"roles": [role(Role.VIEWER, scripts=True)]}, "grants.scripts_need_developer"),
        ({"roles": [role(Role.VIEWER), role(Role.ADMIN)]}, "grants.repeated"),
        ({}, "gitops.roles_wanted"),
        ({"roles": [], "password": "x"}, "unknown_field"),
    ):
        document = {"type": "user_roles", "name": "olga", **fields}
        plan = await services.gitops.plan(COMMAND_LINE, [document], owner=None)
        assert [found for _, found in problems(plan)] == [code]


_GRANTS = st.dictionaries(
    st.integers(0, 2),
    st.builds(Grant, st.sampled_from(Role))
    | st.builds(Grant, st.sampled_from([Role.DEVELOPER, Role.ADMIN]), st.just(True)),
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(wanted=_GRANTS)
def test_an_export_changes_nothing_when_it_is_applied(
    services: Services, wanted: dict[int, Grant]
) -> None:
    asyncio.run(_round_trip(services, wanted))


async def _round_trip(services: Services, wanted: dict[int, Grant]) -> None:
    known = {each.name: each.id for each in await services.users.list(COMMAND_LINE)}
    if "olga" not in known:
        await user(services, "root", everywhere(Role.ADMIN))
        known["olga"] = await user(services, "olga")
        for name in ("billing", "a"):
            await services.executors.create(COMMAND_LINE, name=name)
    listed = await services.executors.list(COMMAND_LINE)
    ids = [ALL_EXECUTORS, *(each.id for each in listed)]
    given = {ids[each]: grant for each, grant in wanted.items()}
    await services.users.set_grants(COMMAND_LINE, known["olga"], given)
    choice = ExportChoice(types=[ObjectType.USER_ROLES])
    written = [
        dict(each) async for part in services.gitops.export(COMMAND_LINE, choice) for each in part
    ]
    validator = jsonschema_rs.validator_for(schema_of_documents())
    for each in written:
        assert list(validator.iter_errors(each)) == []
    plan = await services.gitops.plan(COMMAND_LINE, written, owner=None)
    assert (problems(plan), told(plan), plan.unchanged) == ([], [], 2)
    other = [{**each, "roles": each["roles"][::-1]} for each in written]  # the order says nothing
    assert told(await services.gitops.plan(COMMAND_LINE, other, owner=None)) == []
