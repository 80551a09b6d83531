"""Identity: passwords, sessions, tokens, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher, extract_parameters

from tests.admin.kit.clock import Clock
from tests.admin.kit.served import GOOD_PASSWORD, services_over
from tickwheel_admin.domain.errors import (
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    TooMany,
)
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role, everywhere
from tickwheel_admin.engine.maintenance.cleaner import Cleaner
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.system.audit import AuditLog, AuditQuery
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.logins import NewSession
from tickwheel_admin.services.users.passwords import (
    Passwords,
    check_new_password,
    one_time_password,
)
from tickwheel_admin.services.users.throttle import MAX_KEYS, LoginThrottle
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database

MINUTE = 60
HOUR = 3600


@pytest.fixture
async def services(store: Database, clock: Clock) -> AsyncIterator[Services]:
    services = services_over(
        store,
        throttle=LoginThrottle(clock.monotonic),
        sleep=clock.sleep,
    )
    yield services
    services.close()


async def log_in(
    services: Services,
    name: str = "admin",
    password: str = GOOD_PASSWORD,
    address: str = "192.0.2.1",
) -> NewSession:
    return await services.logins.login(name, password, address=address, user_agent="test")


@pytest.fixture
async def admin(services: Services) -> NewSession:
    """The first admin, logged in, with GOOD_PASSWORD."""
    one_time = await services.users.ensure_first_admin()
    assert one_time is not None
    session = await log_in(services, password=one_time)
    view = await services.logins.session(session.cookie)
    assert view is not None
    return await services.logins.change_password(
        view.actor, session.cookie, old=one_time, new=GOOD_PASSWORD
    )


async def actor_of(services: Services, session: NewSession) -> Actor:
    view = await services.logins.session(session.cookie)
    assert view is not None
    return view.actor


async def audit_actions(store: Database) -> list[str]:
    def read(conn: sa.Connection) -> list[str]:
        return list(conn.execute(sa.select(tables.audit.c.action)).scalars())

    return await store.read(read)


# --- the first admin -------------------------------------------------------------------------


async def test_the_first_admin_gets_a_one_time_password_that_must_be_changed(
    services: Services,
) -> None:
    password = await services.users.ensure_first_admin()

    assert password is not None
    assert len(password) >= 20
    session = await log_in(services, password=password)
    assert session.must_change_password
    assert (await actor_of(services, session)).grants == {ALL_EXECUTORS: Role.ADMIN}


async def test_nobody_is_added_once_there_is_somebody(services: Services) -> None:
    assert await services.users.ensure_first_admin() is not None
    assert await services.users.ensure_first_admin() is None


async def test_two_admins_that_start_at_once_add_one_person(services: Services) -> None:
    passwords = await asyncio.gather(*(services.users.ensure_first_admin() for _ in range(5)))

    assert len([password for password in passwords if password]) == 1


def test_one_time_passwords_differ_and_obey_the_rules_for_passwords() -> None:
    made = {one_time_password() for _ in range(100)}

    assert len(made) == 100
    for password in made:
        check_new_password(password, user_name="admin")


# --- login -----------------------------------------------------------------------------------


async def test_whoever_is_shut_out_never_learns_whether_a_password_is_right(
    services: Services, admin: NewSession, clock: Clock
) -> None:
    """The right one was never throttled, so that it could be told from wrong ones."""
    right = (
        await services.users.create(COMMAND_LINE, "eve", grants=everywhere(Role.VIEWER))
    ).password
    await services.users.set_disabled(COMMAND_LINE, "eve", disabled=True)
    told = {}
    for password in (right, "x" * 12):
        clock.advance(3_600)
        clock.slept.clear()
        answers = []
        for _ in range(8):
            with pytest.raises((NotLoggedIn, TooMany)) as caught:
                await log_in(services, "eve", password)
            answers.append(caught.value.code)
        told[password] = (answers, list(clock.slept))
    assert told[right] == told["x" * 12]
    assert "login.too_many" in told[right][0]

    await services.users.set_disabled(COMMAND_LINE, "eve", disabled=False)
    with pytest.raises(TooMany):  # as for anybody who was wrong so often
        await log_in(services, "eve", right)
    clock.advance(60)
    await log_in(services, "eve", right)


async def test_unknown_wrong_and_disabled_look_the_same(
    services: Services, admin: NewSession
) -> None:
    disabled_password = (
        await services.users.create(COMMAND_LINE, "eve", grants=everywhere(Role.VIEWER))
    ).password
    await services.users.set_disabled(COMMAND_LINE, "eve", disabled=True)

    failures = []
    for name, password in [("nobody", "x" * 12), ("admin", "x" * 12), ("eve", disabled_password)]:
        with pytest.raises(NotLoggedIn) as failure:
            await log_in(services, name, password)
        failures.append((failure.value.code, str(failure.value)))

    assert len(set(failures)) == 1


async def test_capitals_and_spaces_around_a_name_do_not_matter(
    services: Services, admin: NewSession
) -> None:
    session = await services.logins.session((await log_in(services, "  Admin ")).cookie)
    assert session is not None
    assert session.actor.name == "admin"


async def test_what_the_database_holds_opens_nothing(
    services: Services, store: Database, admin: NewSession
) -> None:
    token = await services.api_tokens.create_for(COMMAND_LINE, "admin", name="ci")

    def dump(conn: sa.Connection) -> str:
        return "\n".join(
            str(row)
            for table in tables.metadata.sorted_tables
            for row in conn.execute(table.select())
        )

    content = await store.read(dump)
    assert GOOD_PASSWORD not in content
    assert admin.cookie not in content
    assert token not in content
    assert "$argon2id$" in content


async def test_every_login_is_a_new_session_and_ends_the_one_it_replaces(
    services: Services, admin: NewSession
) -> None:
    other = await services.logins.login(
        "admin", GOOD_PASSWORD, address="", user_agent="", replaces=admin.cookie
    )

    assert other.cookie != admin.cookie
    assert other.csrf_token != admin.csrf_token
    assert await services.logins.session(admin.cookie) is None


async def test_a_made_up_cookie_becomes_no_session(services: Services, admin: NewSession) -> None:
    fixed = "attacker-chosen-value"
    session = await services.logins.login(
        "admin", GOOD_PASSWORD, address="", user_agent="", replaces=fixed
    )

    assert session.cookie != fixed
    assert await services.logins.session(fixed) is None


async def test_unknown_and_known_names_cost_the_same_work(store: Database) -> None:
    """So the time of the answer tells nobody which names there are."""
    work = []

    class Hasher(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002
            work.append(extract_parameters(str(hash)))
            return super().verify(hash, password)

    passwords = Passwords(Hasher(time_cost=1, memory_cost=64, parallelism=1))
    services = services_over(
        store,
        passwords=passwords,
        throttle=LoginThrottle(),
        sleep=lambda _seconds: asyncio.sleep(0),
    )
    await services.users.ensure_first_admin()
    for name in ("admin", "nobody"):
        with pytest.raises(NotLoggedIn):
            await log_in(services, name, "wrong password")
    services.close()
    assert len(work) == 2
    assert work[0] == work[1]


# --- throttling ------------------------------------------------------------------------------


async def fail_until_throttled(
    services: Services, *, name: str = "admin", addresses: list[str], limit: int = 1000
) -> int:
    """How many wrong passwords were heard before every further one was refused."""
    heard, waits = 0, []
    for n in range(limit):
        try:
            await log_in(services, name, "wrong password!", address=addresses[n % len(addresses)])
        except NotLoggedIn:
            heard += 1
        except TooMany as refusal:
            waits.append(refusal.retry_after_seconds)
    assert min(waits) >= 1
    return heard


async def test_a_thousand_wrong_passwords_from_one_address_are_hardly_heard(
    services: Services, admin: NewSession, clock: Clock
) -> None:
    heard = await fail_until_throttled(services, addresses=["192.0.2.9"])

    assert heard <= 6
    assert clock.slept == sorted(clock.slept)
    assert clock.slept[-1] >= 0.5
    with pytest.raises(TooMany) as refusal:
        await log_in(services, address="192.0.2.9")
    clock.advance(refusal.value.retry_after_seconds)
    await log_in(services, address="192.0.2.9")


async def test_one_address_cannot_try_many_names(services: Services, admin: NewSession) -> None:
    heard = 0
    for n in range(300):
        try:
            await log_in(services, f"user{n}", "wrong password!", address="192.0.2.9")
        except NotLoggedIn:
            heard += 1
        except TooMany:
            pass

    assert heard <= 41


async def test_many_addresses_cannot_try_one_name(services: Services, admin: NewSession) -> None:
    addresses = [f"198.51.{n // 250}.{n % 250}" for n in range(1000)]

    assert await fail_until_throttled(services, addresses=addresses) <= 51


async def test_an_attack_from_elsewhere_does_not_lock_out_who_was_here_before(
    services: Services, admin: NewSession
) -> None:
    await fail_until_throttled(services, addresses=[f"198.51.100.{n}" for n in range(250)])

    await log_in(services, address="192.0.2.1")
    with pytest.raises(TooMany):
        await log_in(services, address="203.0.113.77")


async def test_addresses_of_one_ipv6_subscriber_count_as_one(
    services: Services, admin: NewSession
) -> None:
    addresses = [f"2001:db8:1:2::{n:x}" for n in range(500)]

    assert await fail_until_throttled(services, addresses=addresses) <= 6


async def test_success_forgives_failures(services: Services, admin: NewSession) -> None:
    for _ in range(10):
        for _ in range(3):
            with pytest.raises(NotLoggedIn):
                await log_in(services, password="wrong password!")
        await log_in(services)


async def test_changing_the_password_is_throttled_like_login(
    services: Services, admin: NewSession
) -> None:
    actor = await actor_of(services, admin)

    async def attempt() -> None:
        await services.logins.change_password(
            actor, admin.cookie, old="wrong password!", new="another good one"
        )

    for _ in range(5):
        with pytest.raises(InvalidInput):
            await attempt()
    with pytest.raises(TooMany):
        await attempt()


def test_the_throttle_remembers_a_bounded_number(clock: Clock) -> None:
    throttle = LoginThrottle(clock.monotonic)
    for n in range(MAX_KEYS):
        clock.advance(10)
        throttle.admit(f"user{n}", f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}")

    assert len(throttle._spent) <= MAX_KEYS


async def test_two_hundred_parallel_logins_use_few_threads_and_are_all_answered(
    store: Database,
) -> None:
    under_way, most = 0, 0

    class Counting(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # noqa: A002
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            try:
                return super().verify(hash, password)
            finally:
                under_way -= 1

    passwords = Passwords(Counting(time_cost=1, memory_cost=8192, parallelism=1))
    services = services_over(store, passwords=passwords, sleep=lambda _seconds: asyncio.sleep(0))
    one_time = await services.users.ensure_first_admin()
    assert one_time is not None

    results = await asyncio.gather(
        *(log_in(services, "admin", one_time, address=f"10.0.0.{n}") for n in range(200)),
        return_exceptions=True,
    )

    services.close()
    assert most <= 2
    assert {type(result) for result in results} <= {NewSession, TooMany}
    assert len([result for result in results if isinstance(result, NewSession)]) >= 40


# --- sessions --------------------------------------------------------------------------------


async def test_a_session_ends_after_thirty_idle_minutes(
    services: Services, admin: NewSession, clock: Clock
) -> None:
    for _ in range(4):
        clock.advance(29 * MINUTE)
        assert await services.logins.session(admin.cookie) is not None
    clock.advance(30 * MINUTE)
    assert await services.logins.session(admin.cookie) is None


async def test_what_pages_fetch_by_themselves_keeps_no_session_alive(
    services: Services, admin: NewSession, clock: Clock
) -> None:
    for _ in range(29):
        clock.advance(1 * MINUTE)
        assert await services.logins.session(admin.cookie, touch=False) is not None
    clock.advance(1 * MINUTE)
    assert await services.logins.session(admin.cookie, touch=False) is None


async def test_a_session_ends_after_twelve_hours_in_any_case(
    services: Services, admin: NewSession, clock: Clock
) -> None:
    for _ in range(12 * 3 - 1):
        clock.advance(20 * MINUTE)
        assert await services.logins.session(admin.cookie) is not None
    clock.advance(20 * MINUTE)
    assert await services.logins.session(admin.cookie) is None


async def test_logout_ends_this_session_only(services: Services, admin: NewSession) -> None:
    other = await log_in(services)
    await services.logins.logout(admin.cookie)

    assert await services.logins.session(admin.cookie) is None
    assert await services.logins.session(other.cookie) is not None


async def test_ended_sessions_are_deleted_with_later_logins(
    services: Services, store: Database, admin: NewSession, clock: Clock
) -> None:
    for _ in range(3):
        await log_in(services)
    clock.advance(1 * HOUR)
    await log_in(services)

    def count(conn: sa.Connection) -> int:
        return int(
            conn.execute(sa.select(sa.func.count()).select_from(tables.session)).scalar_one()
        )

    assert await store.read(count) == 1


async def test_changing_the_password_ends_all_other_sessions_and_tokens(
    services: Services, admin: NewSession
) -> None:
    other = await log_in(services)
    token = await services.api_tokens.create_for(COMMAND_LINE, "admin", name="ci")

    fresh = await services.logins.change_password(
        await actor_of(services, admin), admin.cookie, old=GOOD_PASSWORD, new="another good one"
    )

    for ended in (admin, other):
        assert await services.logins.session(ended.cookie) is None
    assert await services.api_tokens.actor_of(token, address="") is None
    assert await services.logins.session(fresh.cookie) is not None
    assert fresh.cookie not in (admin.cookie, other.cookie)
    with pytest.raises(NotLoggedIn):
        await log_in(services)
    await log_in(services, password="another good one")


async def test_a_password_reset_ends_sessions_and_tokens_and_must_be_changed(
    services: Services, admin: NewSession
) -> None:
    token = await services.api_tokens.create_for(COMMAND_LINE, "admin", name="ci")

    one_time = await services.users.reset_password(COMMAND_LINE, "admin")

    assert await services.logins.session(admin.cookie) is None
    assert await services.api_tokens.actor_of(token, address="") is None
    assert (await log_in(services, password=one_time)).must_change_password


async def test_a_disabled_person_is_out_at_once_and_can_come_back(
    services: Services, admin: NewSession
) -> None:
    token = await services.api_tokens.create_for(COMMAND_LINE, "admin", name="ci")
    await services.users.create(COMMAND_LINE, "deputy", grants=everywhere(Role.ADMIN))

    await services.users.set_disabled(COMMAND_LINE, "admin", disabled=True)

    assert await services.logins.session(admin.cookie) is None
    assert await services.api_tokens.actor_of(token, address="") is None
    await services.users.set_disabled(COMMAND_LINE, "admin", disabled=False)
    assert await services.api_tokens.actor_of(token, address="") is not None
    await log_in(services)


async def test_a_role_taken_away_counts_at_the_next_request(
    services: Services, store: Database, admin: NewSession
) -> None:
    await store.run(lambda conn: conn.execute(sa.delete(tables.grant)).rowcount)

    assert (await actor_of(services, admin)).grants == {}


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ("short", "password.too_short"),
        ("x" * 300, "password.too_long"),
        ("aaaaaaaaaaaaaa", "password.too_simple"),
        ("adminadminadmin", "password.too_simple"),
        (GOOD_PASSWORD, "password.unchanged"),
    ],
)
async def test_bad_new_passwords_are_refused_by_name_of_the_rule(
    services: Services, admin: NewSession, new: str, code: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        await services.logins.change_password(
            await actor_of(services, admin), admin.cookie, old=GOOD_PASSWORD, new=new
        )

    assert [(problem.field, problem.code) for problem in refusal.value.problems] == [("new", code)]
    assert await services.logins.session(admin.cookie) is not None


async def test_hashes_of_older_parameters_are_renewed_at_login(
    services: Services, store: Database, admin: NewSession
) -> None:
    stronger = Passwords(PasswordHasher(time_cost=2, memory_cost=16, parallelism=1))
    newer = services_over(store, passwords=stronger)

    await log_in(newer)

    def stored_hash(conn: sa.Connection) -> str:
        return str(conn.execute(sa.select(tables.user.c.password_hash)).scalar_one())

    assert "m=16,t=2,p=1" in await store.read(stored_hash)
    await log_in(newer)
    newer.close()


# --- tokens and administration ----------------------------------------------------------------


async def test_a_token_acts_with_its_persons_grants_until_it_expires(
    services: Services, admin: NewSession, clock: Clock
) -> None:
    await services.users.create(COMMAND_LINE, "olga", grants=everywhere(Role.OPERATOR))
    token = await services.api_tokens.create_for(COMMAND_LINE, "olga", name="ci", valid_days=7)

    actor = await services.api_tokens.actor_of(token, address="192.0.2.5")

    assert token.startswith("twt_")
    assert actor is not None
    assert (actor.name, dict(actor.grants)) == ("olga", {ALL_EXECUTORS: Role.OPERATOR})
    assert actor.token_id is not None
    clock.advance(7 * 24 * HOUR)
    assert await services.api_tokens.actor_of(token, address="") is None


@pytest.mark.parametrize("token", ["", "twt_", "twt_unknown", "admin", "\udcff", "twt_\udcff"])
async def test_other_texts_are_no_tokens(services: Services, admin: NewSession, token: str) -> None:
    assert await services.api_tokens.actor_of(token, address="") is None


async def test_names_are_unique_and_checked(services: Services, admin: NewSession) -> None:
    with pytest.raises(Conflict):
        await services.users.create(COMMAND_LINE, "ADMIN", grants=everywhere(Role.VIEWER))
    for name in ("", "-x", "a b", "a\r\nb", "ä", "x" * 101, "<b>"):
        with pytest.raises(InvalidInput):
            await services.users.create(COMMAND_LINE, name, grants=everywhere(Role.VIEWER))
    with pytest.raises(NotFound):
        await services.users.reset_password(COMMAND_LINE, "nobody")
    await services.api_tokens.create_for(COMMAND_LINE, "admin", name="ci")
    with pytest.raises(Conflict):
        await services.api_tokens.create_for(COMMAND_LINE, "admin", name="ci")


async def test_only_administrators_manage_people(services: Services, admin: NewSession) -> None:
    developer = Actor(user_id=9, name="dev", grants={ALL_EXECUTORS: Role.DEVELOPER})
    for attempt in (
        services.users.create(developer, "eve", grants=everywhere(Role.ADMIN)),
        services.users.reset_password(developer, "admin"),
        services.users.set_disabled(developer, "admin", disabled=True),
        services.api_tokens.create_for(developer, "admin", name="x"),
        services.users.list(developer),
    ):
        with pytest.raises(NotAllowed):
            await attempt


async def test_every_change_writes_its_audit_row(
    services: Services, store: Database, admin: NewSession
) -> None:
    await services.users.create(COMMAND_LINE, "olga", grants=everywhere(Role.OPERATOR))
    await services.api_tokens.create_for(COMMAND_LINE, "olga", name="ci")
    await services.users.reset_password(COMMAND_LINE, "olga")
    await services.users.set_disabled(COMMAND_LINE, "olga", disabled=True)
    with pytest.raises(NotLoggedIn):
        await log_in(services, "olga", "wrong password!")

    assert await audit_actions(store) == [
        "user.created",
        "user.logged_in",
        "user.password_changed",
        "user.created",
        "token.created",
        "user.password_reset",
        "user.disabled",
    ]
    assert [(item.name, item.disabled) for item in await services.users.list(COMMAND_LINE)] == [
        ("admin", False),
        ("olga", True),
    ]


# --- every kind of database -------------------------------------------------------------------


@pytest.mark.every_database
async def test_people_come_and_go_on_every_database(database: Database) -> None:
    services = services_over(database)
    one_time = await services.users.ensure_first_admin()
    assert one_time is not None
    assert await services.users.ensure_first_admin() is None
    first = await log_in(services, password=one_time)
    token = await services.api_tokens.create_for(COMMAND_LINE, "admin", name="ci", valid_days=1)
    assert await services.api_tokens.actor_of(token, address="") is not None

    actor = await actor_of(services, first)
    fresh = await services.logins.change_password(
        actor, first.cookie, old=one_time, new=GOOD_PASSWORD
    )

    assert await services.logins.session(first.cookie) is None
    assert await services.api_tokens.actor_of(token, address="") is None
    assert (await actor_of(services, fresh)).grants == {ALL_EXECUTORS: Role.ADMIN}
    with pytest.raises(NotLoggedIn):
        await log_in(services, password=one_time)
    with pytest.raises(Conflict):
        await services.users.create(COMMAND_LINE, "Admin", grants=everywhere(Role.VIEWER))
    await services.users.create(COMMAND_LINE, "root", grants=everywhere(Role.ADMIN))
    elsewhere = await log_in(services)
    assert [
        each.current for each in await services.own_account.sessions(actor, elsewhere.cookie)
    ].count(True)
    assert await services.own_account.end_other_sessions(actor, elsewhere.cookie) == 1
    await services.api_tokens.create(
        await actor_of(services, elsewhere), name="short", role=Role.VIEWER, valid_days=1
    )
    assert [each.name for each in (await services.api_tokens.page(COMMAND_LINE)).items] == ["short"]
    await services.users.set_grants(
        COMMAND_LINE, actor.user_id, everywhere(Role.DEVELOPER, scripts=True)
    )
    assert await services.logins.session(elsewhere.cookie) is None
    page = await services.users.page(COMMAND_LINE, part="DMI", limit=1)
    assert [each.grants for each in page.items] == [everywhere(Role.DEVELOPER, scripts=True)]

    ghost = {"user_id": actor.user_id, "executor_id": 77, "role": "viewer", "scripts": False}
    await database.run(lambda conn: conn.execute(sa.insert(tables.grant).values(ghost)).rowcount)
    await Cleaner(database, retention_days=30).run_once()
    page = await services.users.page(COMMAND_LINE, part="admin")
    assert list(page.items[0].grants) == [ALL_EXECUTORS]
    log, found = AuditLog(database), []
    for query in (AuditQuery(), AuditQuery(person="admin"), AuditQuery(object_id=actor.user_id)):
        first_page = await log.page(COMMAND_LINE, query, limit=2)
        second_page = await log.page(COMMAND_LINE, query, first_page.next, limit=2)
        found.append([each.action for each in (*first_page.items, *second_page.items)])
    assert found[0][0] == "user.grants_changed"
    assert len(found[0]) == 4
    assert "user.grants_changed" not in found[1]  # that was the command line
    assert "token.created" in found[1]
    await services.users.delete(COMMAND_LINE, actor.user_id)
    assert [each.name for each in await services.users.list(COMMAND_LINE)] == ["root"]
    services.close()
