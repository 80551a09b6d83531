"""What people may do: given, taken away at once, narrowed for tokens; somebody is always left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.served import GOOD_PASSWORD, services_over
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotLoggedIn
from tickwheel_admin.domain.users.user import (
    ALL_EXECUTORS,
    Actor,
    Grant,
    Permission,
    Role,
    everywhere,
    grants_to_actor,
)
from tickwheel_admin.engine.maintenance.cleaner import Cleaner
from tickwheel_admin.services.events.events import USERS, Events
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.lists.paging import encode_cursor
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users import edits
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.logins import NewSession
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.users.grants import has_other_admin

ROLES = (None, *Role)
DAY = 86_400


@pytest.fixture
def services(store: Database) -> Iterator[Services]:
    services = services_over(store)
    yield services
    services.close()


@pytest.fixture
def events(services: Services) -> Events:
    return services.events


async def executor(store: Database, name: str) -> int:
    return (await Executors(store, Ids(store), Events()).create(COMMAND_LINE, name=name)).id


async def log_in(services: Services, name: str, one_time: str) -> NewSession:
    first = await services.logins.login(name, one_time, address="192.0.2.1", user_agent="Firefox")
    view = await services.logins.session(first.cookie)
    assert view is not None
    return await services.logins.change_password(
        view.actor, first.cookie, old=one_time, new=GOOD_PASSWORD
    )


async def somebody(
    services: Services, name: str, grants: dict[int, Grant]
) -> tuple[Actor, NewSession]:
    session = await log_in(
        services, name, (await services.users.create(COMMAND_LINE, name, grants=grants)).password
    )
    view = await services.logins.session(session.cookie)
    assert view is not None
    return view.actor, session


async def details(store: Database, action: str) -> list[dict[str, Any]]:
    found = await store.read(
        lambda conn: list(
            conn.execute(
                sa.select(tables.audit.c.detail).where(tables.audit.c.action == action)
            ).scalars()
        )
    )
    return [json.loads(each) for each in found]


def actor(grants: dict[int, Grant]) -> Actor:
    roles, scripts = grants_to_actor(grants)
    return Actor(user_id=1, name="x", grants=roles, scripts=scripts)


# --- grants ------------------------------------------------------------------------------------


async def test_roles_are_held_per_executor_and_scripts_beside_them(
    services: Services, store: Database
) -> None:
    billing = await executor(store, "billing")
    grants = {ALL_EXECUTORS: Grant(Role.VIEWER), billing: Grant(Role.DEVELOPER, scripts=True)}
    olga, _ = await somebody(services, "olga", grants)

    assert olga.may(Permission.VIEW, 999)
    assert not olga.may(Permission.DEVELOP, 999)
    assert olga.may(Permission.DEVELOP, billing)
    assert olga.may(Permission.SCRIPT, billing)
    assert not olga.may(Permission.SCRIPT)
    [item] = await services.users.list(COMMAND_LINE)
    assert item.grants == grants


@pytest.mark.parametrize(
    ("grants", "code"),
    [
        ({77: Grant(Role.VIEWER)}, "executor.unknown"),
        ({0: Grant(Role.OPERATOR, scripts=True)}, "grants.scripts_need_developer"),
        ({each: Grant(Role.VIEWER) for each in range(501)}, "grants.too_many"),
    ],
)
async def test_grants_that_nobody_can_have_are_refused(
    services: Services, grants: dict[int, Grant], code: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        await services.users.create(COMMAND_LINE, "olga", grants=grants)
    assert [(each.field, each.code) for each in refusal.value.problems] == [("grants", code)]
    assert await services.users.list(COMMAND_LINE) == []


async def test_what_is_taken_away_ends_sessions_streams_and_tokens_that_could_do_it(
    services: Services, store: Database, events: Events
) -> None:
    billing = await executor(store, "billing")
    olga, session = await somebody(services, "olga", everywhere(Role.DEVELOPER))
    strong = (await services.api_tokens.create(olga, name="strong")).secret
    weak = (
        await services.api_tokens.create(olga, name="weak", role=Role.VIEWER, executors=[billing])
    ).secret
    told: list[int] = []
    events.listen(USERS, lambda: told.append(1))

    await services.users.set_grants(COMMAND_LINE, olga.user_id, {billing: Grant(Role.DEVELOPER)})

    assert await services.logins.session(session.cookie) is None
    assert told
    assert await services.api_tokens.actor_of(strong, address="") is None
    assert await services.api_tokens.actor_of(weak, address="") is not None
    [detail] = await details(store, "user.grants_changed")
    assert (detail["sessions_ended"], detail["api_tokens_revoked"]) == (1, 1)
    assert detail["before"] == [{"executor_id": None, "role": "developer"}]
    assert detail["grants"] == [{"executor_id": billing, "role": "developer"}]


async def test_what_is_given_ends_nothing_and_counts_at_the_next_request(
    services: Services,
) -> None:
    olga, session = await somebody(services, "olga", everywhere(Role.VIEWER))
    await services.users.set_grants(COMMAND_LINE, olga.user_id, everywhere(Role.OPERATOR))
    view = await services.logins.session(session.cookie)
    assert view is not None
    assert view.actor.may(Permission.OPERATE)


async def test_scripts_that_are_taken_away_end_sessions_as_a_role_does(services: Services) -> None:
    grants = everywhere(Role.DEVELOPER, scripts=True)
    olga, session = await somebody(services, "olga", grants)
    await services.users.set_grants(COMMAND_LINE, olga.user_id, everywhere(Role.DEVELOPER))
    assert await services.logins.session(session.cookie) is None


async def test_the_same_grants_again_are_no_change(services: Services, store: Database) -> None:
    olga, _ = await somebody(services, "olga", everywhere(Role.VIEWER))
    await services.users.set_grants(COMMAND_LINE, olga.user_id, everywhere(Role.VIEWER))
    assert await details(store, "user.grants_changed") == []


# --- somebody is always left --------------------------------------------------------------------


async def test_the_last_administrator_stays(services: Services) -> None:
    first = (await services.users.create(COMMAND_LINE, "first", grants=everywhere(Role.ADMIN))).id
    second = (await services.users.create(COMMAND_LINE, "second", grants=everywhere(Role.ADMIN))).id
    await services.users.set_disabled(COMMAND_LINE, second, disabled=True)
    for attempt in (
        services.users.set_grants(COMMAND_LINE, first, everywhere(Role.DEVELOPER)),
        services.users.set_grants(COMMAND_LINE, first, {}),
        services.users.set_disabled(COMMAND_LINE, "first", disabled=True),
        services.users.delete(COMMAND_LINE, first),
    ):
        with pytest.raises(Conflict) as refusal:
            await attempt
        assert refusal.value.code == "user.last_admin"
    await services.users.delete(COMMAND_LINE, second)  # shut out already, so nobody is missed
    assert [each.name for each in await services.users.list(COMMAND_LINE)] == ["first"]


async def test_nobody_takes_rights_from_themselves(services: Services) -> None:
    await services.users.create(COMMAND_LINE, "other", grants=everywhere(Role.ADMIN))
    olga, _ = await somebody(services, "olga", everywhere(Role.ADMIN))
    codes = []
    for attempt in (
        services.users.set_grants(olga, olga.user_id, everywhere(Role.VIEWER)),
        services.users.set_disabled(olga, olga.user_id, disabled=True),
        services.users.delete(olga, olga.user_id),
    ):
        with pytest.raises(Conflict) as refusal:
            await attempt
        codes.append(refusal.value.code)
    assert codes == ["user.own_grants", "user.own_account", "user.own_account"]
    await services.users.set_grants(olga, olga.user_id, everywhere(Role.ADMIN, scripts=True))


@pytest.mark.every_database
async def test_of_two_administrators_who_demote_each_other_one_stays(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = services_over(database)
    a = await services.users.create(COMMAND_LINE, "a", grants=everywhere(Role.ADMIN))
    b = await services.users.create(COMMAND_LINE, "b", grants=everywhere(Role.ADMIN))
    both_ask = threading.Barrier(2)

    def asked_together(conn: sa.Connection, user_id: int) -> bool:
        # Without the lock both would find the other one still there; with it one waits outside.
        found = has_other_admin(conn, user_id)
        with contextlib.suppress(threading.BrokenBarrierError):
            both_ask.wait(0.3)
        return found

    monkeypatch.setattr(edits, "has_other_admin", asked_together)
    me, you = (Actor(user_id=each.id, name=each.name, grants={0: Role.ADMIN}) for each in (a, b))
    results = await asyncio.gather(
        services.users.set_grants(me, b.id, everywhere(Role.VIEWER)),
        services.users.set_grants(you, a.id, everywhere(Role.VIEWER)),
        return_exceptions=True,
    )
    services.close()

    [refusal] = [each for each in results if each is not None]
    assert isinstance(refusal, Conflict)
    assert refusal.code == "user.last_admin"
    left = [
        each
        for each in await services.users.list(COMMAND_LINE)
        if each.grants[0].role is Role.ADMIN
    ]
    assert len(left) == 1


# --- people come and go ---------------------------------------------------------------------------


async def test_of_a_deleted_person_the_audit_keeps_the_name_and_nothing_acts_any_more(
    services: Services, store: Database
) -> None:
    olga, session = await somebody(services, "olga", everywhere(Role.VIEWER))
    token = (await services.api_tokens.create(olga, name="ci")).secret
    await services.users.delete(COMMAND_LINE, olga.user_id)

    assert await services.logins.session(session.cookie) is None
    assert await services.api_tokens.actor_of(token, address="") is None
    with pytest.raises(NotLoggedIn):
        await services.logins.login("olga", GOOD_PASSWORD, address="", user_agent="")
    assert (await details(store, "user.deleted"))[0]["name"] == "olga"
    with pytest.raises(NotFound):
        await services.users.get(COMMAND_LINE, olga.user_id)
    again = await services.users.create(COMMAND_LINE, "olga", grants={})
    assert again.id != olga.user_id
    assert await services.api_tokens.actor_of(token, address="") is None


async def test_people_are_listed_page_by_page_and_found_by_a_part_of_the_name(
    services: Services,
) -> None:
    for name in ("ann", "bob", "bo_", "cora"):
        await services.users.create(COMMAND_LINE, name, grants={})
    page = await services.users.page(COMMAND_LINE, limit=3)
    assert [each.name for each in page.items] == ["ann", "bo_", "bob"]
    page = await services.users.page(COMMAND_LINE, cursor=page.next, limit=3)
    assert ([each.name for each in page.items], page.next) == (["cora"], None)
    page = await services.users.page(COMMAND_LINE, part="O_")
    assert [each.name for each in page.items] == ["bo_"]


async def test_no_database_is_asked_for_names_that_nobody_can_have(services: Services) -> None:
    root, _ = await somebody(services, "root", everywhere(Role.ADMIN))
    for attempt in (
        services.users.page(root, part="a\0"),
        services.users.page(root, cursor=encode_cursor("a\0")),
    ):
        with pytest.raises(InvalidInput):
            await attempt


async def test_sessions_are_listed_and_ended_one_by_one_or_all_others(services: Services) -> None:
    olga, here = await somebody(services, "olga", {})
    others = [
        await services.logins.login("olga", GOOD_PASSWORD, address="192.0.2.7", user_agent=f"B{n}")
        for n in range(3)
    ]
    listed = await services.own_account.sessions(olga, here.cookie)
    assert [each.user_agent for each in listed if each.current] == ["Firefox"]
    assert len({each.key for each in listed}) == 4
    [key] = [each.key for each in listed if each.user_agent == "B0"]
    await services.own_account.end_session(olga, here.cookie, key)
    assert await services.logins.session(others[0].cookie) is None
    for wrong in (key, "", "%", "0" * 64, "../../etc/passwd"):
        with pytest.raises(NotFound):
            await services.own_account.end_session(olga, here.cookie, wrong)

    assert await services.own_account.end_other_sessions(olga, here.cookie) == 2
    assert await services.logins.session(here.cookie) is not None
    assert [await services.logins.session(each.cookie) for each in others] == [None] * 3


async def test_nobody_ends_sessions_of_others_but_an_administrator(services: Services) -> None:
    olga, here = await somebody(services, "olga", {})
    eve, _ = await somebody(services, "eve", {})
    [mine] = await services.own_account.sessions(olga, here.cookie)
    with pytest.raises(NotFound):
        await services.own_account.end_session(eve, "", mine.key)
    with pytest.raises(NotFound):
        await services.users.end_sessions(eve, olga.user_id)
    assert await services.users.end_sessions(COMMAND_LINE, olga.user_id) == 1
    assert await services.logins.session(here.cookie) is None


async def test_a_login_that_began_before_a_reset_comes_to_nothing(
    services: Services, store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password was right when it was looked at, and is not any more when the session begins."""
    olga, _ = await somebody(services, "olga", {})
    take = services.ids.take

    async def reset_meanwhile(name: str) -> int:
        monkeypatch.setattr(services.ids, "take", take)
        await services.users.reset_password(COMMAND_LINE, "olga")
        return await take(name)

    monkeypatch.setattr(services.ids, "take", reset_meanwhile)
    with pytest.raises(NotLoggedIn):
        await services.logins.login("olga", GOOD_PASSWORD, address="", user_agent="")
    assert (await services.users.get(COMMAND_LINE, olga.user_id)).sessions == []


async def test_a_token_that_is_made_while_the_password_is_reset_comes_to_nothing(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    olga, _ = await somebody(services, "olga", everywhere(Role.VIEWER))
    take = services.ids.take

    async def reset_meanwhile(name: str) -> int:
        monkeypatch.setattr(services.ids, "take", take)
        await services.users.reset_password(COMMAND_LINE, "olga")
        return await take(name)

    monkeypatch.setattr(services.ids, "take", reset_meanwhile)
    with pytest.raises(NotLoggedIn):
        await services.api_tokens.create(olga, name="ci")
    assert (await services.users.get(COMMAND_LINE, olga.user_id)).tokens == []


# --- what a token may -----------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("executors", [None, frozenset({1}), frozenset({1, 3}), frozenset({9})])
def test_a_narrowed_actor_may_what_both_allow_and_nothing_else(
    role: Role | None, executors: frozenset[int] | None
) -> None:
    services = [
        everywhere(Role.ADMIN, scripts=True),
        everywhere(Role.VIEWER) | {1: Grant(Role.DEVELOPER, scripts=True), 2: Grant(Role.ADMIN)},
        {1: Grant(Role.OPERATOR), 3: Grant(Role.DEVELOPER, scripts=True)},
        {},
    ]
    scope = actor(everywhere(role, scripts=role in (Role.DEVELOPER, Role.ADMIN))) if role else None
    for grants in services:
        person = actor(grants)
        token = person.narrowed(role, executors)
        assert person.covers(token)
        for permission in Permission:
            for executor_id in (ALL_EXECUTORS, 1, 2, 3, 9):
                within = (
                    permission in (Permission.PUBLIC, Permission.LOGGED_IN)
                    or executors is None
                    or executor_id in executors
                )
                allowed = scope is None or scope.may(permission, executor_id)
                wanted = person.may(permission, executor_id) and within and allowed
                assert token.may(permission, executor_id) == wanted, (grants, permission)


def test_covering_is_about_every_permission_and_place() -> None:
    one = actor({1: Grant(Role.ADMIN)})
    assert actor(everywhere(Role.ADMIN)).covers(one)
    assert not one.covers(actor(everywhere(Role.VIEWER)))
    assert not one.covers(actor({1: Grant(Role.DEVELOPER, scripts=True)}))
    assert one.covers(actor({}))


async def test_a_scoped_token_never_does_more_than_its_person(
    services: Services, store: Database
) -> None:
    billing, reports = await executor(store, "billing"), await executor(store, "reports")
    grants = {billing: Grant(Role.OPERATOR), reports: Grant(Role.ADMIN)}
    olga, _ = await somebody(services, "olga", grants)
    token = (
        await services.api_tokens.create(olga, name="ci", role=Role.ADMIN, executors=[billing])
    ).secret
    acting = await services.api_tokens.actor_of(token, address="192.0.2.5")
    assert acting is not None
    assert dict(acting.grants) == {billing: Role.OPERATOR}
    await services.users.set_grants(COMMAND_LINE, olga.user_id, {reports: Grant(Role.ADMIN)})
    assert await services.api_tokens.actor_of(token, address="") is None  # it could operate


async def test_a_token_for_executors_that_one_does_not_see_is_one_for_none(
    services: Services, store: Database
) -> None:
    foreign = await executor(store, "foreign")
    olga, _ = await somebody(services, "olga", {})
    answers = []
    for executor_id in (foreign, 999):
        with pytest.raises(InvalidInput) as refusal:
            await services.api_tokens.create(olga, name="ci", executors=[executor_id])
        [problem] = refusal.value.problems
        answers.append((problem.field, problem.code, problem.template))
    assert answers[0] == answers[1]


async def test_a_token_cannot_make_itself_outlive_its_end(services: Services) -> None:
    root, session = await somebody(services, "root", everywhere(Role.ADMIN))
    token = (await services.api_tokens.create(root, name="ci")).secret
    acting = await services.api_tokens.actor_of(token, address="")
    assert acting is not None
    preferences = await services.own_account.preferences(acting)
    friend, _ = await somebody(services, "friend", {})
    out = await services.users.create(COMMAND_LINE, "out", grants=everywhere(Role.ADMIN))
    await services.users.set_disabled(COMMAND_LINE, out.id, disabled=True)
    for attempt in (
        services.users.create(acting, "new", grants={}),
        services.users.set_grants(acting, friend.user_id, everywhere(Role.VIEWER)),
        services.users.set_grants(acting, root.user_id, everywhere(Role.ADMIN, scripts=True)),
        services.users.set_disabled(acting, "out", disabled=False),
        services.api_tokens.create(acting, name="next"),
        services.api_tokens.create_for(acting, "root", name="next"),
        services.users.reset_password(acting, "root"),
        services.logins.change_password(
            acting, session.cookie, old=GOOD_PASSWORD, new="another good one"
        ),
        services.own_account.set_preferences(acting, preferences),
        services.own_account.sessions(acting, session.cookie),
        services.own_account.end_other_sessions(acting, session.cookie),
        services.own_account.end_session(acting, session.cookie, "0" * 16),
    ):
        with pytest.raises(NotAllowed) as refusal:
            await attempt
        assert refusal.value.code == "token.not_in_person"


async def test_an_administrators_token_takes_away_what_it_could_not_give(
    services: Services,
) -> None:
    root, _ = await somebody(services, "root", everywhere(Role.ADMIN))
    acting = await services.api_tokens.actor_of(
        (await services.api_tokens.create(root, name="ci")).secret, address=""
    )
    assert acting is not None
    olga, session = await somebody(services, "olga", everywhere(Role.DEVELOPER, scripts=True))

    await services.users.set_grants(acting, olga.user_id, everywhere(Role.OPERATOR))
    assert await services.logins.session(session.cookie) is None
    await services.users.set_disabled(acting, olga.user_id, disabled=True)
    await services.users.delete(acting, olga.user_id)

    assert [each.name for each in await services.users.list(root)] == ["root"]


async def test_a_token_sees_and_ends_itself_alone(services: Services) -> None:
    olga, _ = await somebody(services, "olga", {})
    first = await services.api_tokens.create(olga, name="first")
    second = await services.api_tokens.create(olga, name="second")
    acting = await services.api_tokens.actor_of(second.secret, address="")
    assert acting is not None
    assert [each.name for each in await services.api_tokens.own(acting)] == ["second"]
    with pytest.raises(NotFound):
        await services.api_tokens.revoke(acting, first.id)
    await services.api_tokens.revoke(acting, second.id)
    assert await services.api_tokens.actor_of(second.secret, address="") is None
    eve, _ = await somebody(services, "eve", everywhere(Role.DEVELOPER))
    with pytest.raises(NotFound):
        await services.api_tokens.revoke(eve, first.id)
    await services.api_tokens.revoke(COMMAND_LINE, first.id)
    assert await services.api_tokens.own(olga) == []


async def test_the_use_of_a_token_is_noted_once_a_minute(
    services: Services, store: Database, clock: Clock
) -> None:
    olga, _ = await somebody(services, "olga", {})
    token = (await services.api_tokens.create(olga, name="ci", valid_days=1)).secret

    async def used_at() -> int | None:
        [item] = await services.api_tokens.own(olga)
        return item.used_at

    assert await used_at() is None
    await services.api_tokens.actor_of(token, address="")
    first = clock.now
    assert await used_at() == first
    for _ in range(3):
        clock.advance(19)
        await services.api_tokens.actor_of(token, address="")
        assert await used_at() == first
    clock.advance(3)
    await services.api_tokens.actor_of(token, address="")
    assert await used_at() == clock.now


async def test_somebody_has_a_bounded_number_of_tokens(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.services.users.api_tokens.MAX_TOKENS", 2)
    olga, _ = await somebody(services, "olga", {})
    for name in ("a", "b"):
        await services.api_tokens.create(olga, name=name)
    with pytest.raises(Conflict) as refusal:
        await services.api_tokens.create(olga, name="c")
    assert refusal.value.code == "token.too_many"
    page = await services.api_tokens.page(COMMAND_LINE, limit=1)
    rest = await services.api_tokens.page(COMMAND_LINE, page.next, limit=1)
    assert [each.name for each in (*page.items, *rest.items)] == ["b", "a"]
    assert rest.next is None


async def test_what_acts_for_nobody_any_more_is_cleaned_up(
    services: Services, store: Database, clock: Clock
) -> None:
    billing, gone = await executor(store, "billing"), await executor(store, "gone")
    olga, _ = await somebody(services, "olga", dict.fromkeys((billing, gone), Grant(Role.VIEWER)))
    await services.api_tokens.create(olga, name="short", valid_days=1)
    await services.api_tokens.create(olga, name="long")
    await Executors(store, Ids(store), Events()).delete(COMMAND_LINE, gone)
    cleaner = Cleaner(store, retention_days=30)

    clock.advance(2 * DAY)
    await cleaner.run_once()
    detail = await services.users.get(COMMAND_LINE, olga.user_id)
    assert detail.item.grants == {billing: Grant(Role.VIEWER)}
    assert [each.name for each in detail.tokens] == ["long", "short"]  # to be seen as expired

    clock.advance(400 * DAY)
    await cleaner.run_once()
    assert [each.name for each in await services.api_tokens.own(olga)] == ["long"]
    assert await details(store, "token.created") == []
