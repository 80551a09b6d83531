"""Logins under attack, and what ends with a session, as browsers see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import ClientResponse

from tests.admin.kit.routes import headers_of, logged_in
from tests.admin.kit.served import (
    GOOD_PASSWORD,
    Served,
    fresh_store,
    served,
    services_over,
)
from tickwheel_admin.domain.errors import NotLoggedIn, TooMany
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.logins import NewSession
from tickwheel_admin.services.users.throttle import LoginThrottle

WRONG = "wrong password!"


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as admin:
        services = admin.services
        services.logins._throttle = LoginThrottle(admin.clock.monotonic)
        services.logins._sleep = admin.clock.sleep
        yield admin


async def try_to_log_in(admin: Served, name: str, password: str) -> ClientResponse:
    form = {"name": name, "password": password}
    return await admin.client.post("/login", data=form, allow_redirects=False)


async def test_too_many_wrong_passwords_are_told_when_to_come_back(admin: Served) -> None:
    await logged_in(admin, "olga", everywhere(Role.VIEWER))
    answers = [await try_to_log_in(admin, "olga", WRONG) for _ in range(8)]
    statuses = [each.status for each in answers]
    assert statuses == sorted(statuses)
    assert set(statuses) == {401, 429}
    seconds = int(answers[-1].headers["Retry-After"])
    assert (await try_to_log_in(admin, "olga", GOOD_PASSWORD)).status == 429
    admin.clock.advance(seconds)
    assert (await try_to_log_in(admin, "olga", GOOD_PASSWORD)).status == 303


async def test_who_there_is_cannot_be_told_from_the_login(admin: Served) -> None:
    await logged_in(admin, "olga", everywhere(Role.VIEWER))
    await logged_in(admin, "shut", everywhere(Role.VIEWER))
    await admin.services.users.set_disabled(COMMAND_LINE, "shut", disabled=True)
    answers = []
    for name, password in (("olga", WRONG), ("nobody", WRONG), ("shut", GOOD_PASSWORD)):
        seen = []
        for _ in range(8):
            response = await try_to_log_in(admin, name, password)
            text = (await response.text()).replace(name, "")
            seen.append((response.status, response.headers.get("Retry-After"), text))
        answers.append(seen)
        admin.clock.advance(3_600)
    assert answers[0] == answers[1]
    assert answers[2][0] == answers[0][0]


async def test_each_admin_hears_a_bounded_number_by_itself(tmp_path: Path) -> None:
    """Throttles are in memory: behind N admins N times as many are heard; docs/security.md."""
    async with fresh_store(tmp_path) as store:
        admins = [
            services_over(
                store,
                throttle=LoginThrottle(lambda: 0.0),
                sleep=lambda _seconds: asyncio.sleep(0),
            )
            for _ in range(2)
        ]
        await admins[0].users.ensure_first_admin()
        heard = 0
        for turn in range(40):
            try:
                await admins[turn % 2].logins.login(
                    "admin", WRONG, address="192.0.2.1", user_agent=""
                )
            except NotLoggedIn:
                heard += 1
            except TooMany:
                pass
        for services in admins:
            services.close()
    assert heard == 10


# --- what ends with a session ---------------------------------------------------------------------

End = Callable[[Services, NewSession, int], Awaitable[object]]


async def _change_password(services: Services, _session: NewSession, _user_id: int) -> None:
    elsewhere = await services.logins.login("olga", GOOD_PASSWORD, address="", user_agent="")
    view = await services.logins.session(elsewhere.cookie)
    assert view is not None
    await services.logins.change_password(
        view.actor, elsewhere.cookie, old=GOOD_PASSWORD, new="another good one"
    )


async def _end_others(services: Services, _session: NewSession, _user_id: int) -> None:
    elsewhere = await services.logins.login("olga", GOOD_PASSWORD, address="", user_agent="")
    view = await services.logins.session(elsewhere.cookie)
    assert view is not None
    await services.own_account.end_other_sessions(view.actor, elsewhere.cookie)


ENDS: dict[str, End] = {
    "logout": lambda services, session, _: services.logins.logout(session.cookie),
    "password changed elsewhere": _change_password,
    "password reset": lambda services, _, __: services.users.reset_password(COMMAND_LINE, "olga"),
    "role taken": lambda services, _, user_id: services.users.set_grants(COMMAND_LINE, user_id, {}),
    "shut out": lambda services, _, user_id: services.users.set_disabled(
        COMMAND_LINE, user_id, disabled=True
    ),
    "deleted": lambda services, _, user_id: services.users.delete(COMMAND_LINE, user_id),
    "ended by the person": _end_others,
    "ended by an administrator": lambda services, _, user_id: services.users.end_sessions(
        COMMAND_LINE, user_id
    ),
}


@pytest.mark.parametrize("end", list(ENDS))
async def test_whatever_ends_a_session_closes_its_live_streams_at_once(
    admin: Served, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.console.frame.streams.SESSION_CHECK_SECONDS", 3_600)
    session = await logged_in(admin, "olga", everywhere(Role.OPERATOR))
    [person] = await admin.services.users.list(COMMAND_LINE)
    headers = headers_of(session)
    stream = await admin.client.get("/events", headers=headers)
    assert stream.status == 200
    assert b"event: hello\n" in [await stream.content.readline() for _ in range(3)]

    await ENDS[end](admin.services, session, person.id)

    async with asyncio.timeout(5):
        await stream.content.read()  # to its end
    page = await admin.client.get("/jobs", headers=headers, allow_redirects=False)
    assert (page.status, page.headers["Location"]) == (303, "/login?next=/jobs")
    assert (await admin.client.get("/api/v1/jobs", headers=headers)).status == 401
