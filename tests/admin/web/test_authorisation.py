"""Every declared route, asked by everybody, about their own executor and about another one.

What must be answered follows from the permission that the route declares, so that a new route is
tested without a word here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

import pytest

from tests.admin.kit.routes import (
    COMMON,
    FOREIGN,
    MISSING,
    PERSONAL,
    Caller,
    Ids,
    Rewind,
    address,
    all_routes,
    callers,
    parameters_of,
    two_executors,
)
from tests.admin.kit.served import Served, served
from tickwheel_admin.domain.users.user import ROLE_PERMISSIONS, Permission
from tickwheel_admin.web.headers import CONTENT_SECURITY_POLICY
from tickwheel_admin.web.identity import LOGIN_PATH
from tickwheel_admin.web.routes import Route

# Bodies with which a request gets as far as what it names; empty ones do everywhere else.
BODIES: Mapping[str, Mapping[str, object]] = {
    "PUT /api/v1/jobs/{job_id}": {"revision": 1, "name": "x", "handler": "h"},
    "PUT /api/v1/jobs/{job_id}/state": {"state": {}},
    "POST /api/v1/jobs/{job_id}/roll-back": {"to": 1, "revision": 1},
    "PUT /api/v1/executors/{executor_id}/code-jobs": {"policy": "ask"},
    "PUT /api/v1/executors/{executor_id}/xxl-job": {"app_name": "billing"},
    "PUT /api/v1/nodes/{node_id}/slots": {"slots": 2},
    "PUT /api/v1/nodes/{node_id}/weight": {"weight": 2},
}
_PATTERN = re.compile(r":\[0-9\]\{[0-9,]+\}|:\[\^/\]\+")  # in paths: what ids look like


class Answer(Enum):
    """What the declared permission makes of somebody."""

    LOGIN = auto()  # 401, or the way to the login page
    REFUSED = auto()  # 403
    IN = auto()  # whatever the use case says


@dataclass(frozen=True, slots=True)
class Said:
    """An answer, without what differs between any two."""

    status: int
    location: str
    text: str


def expected(route: Route, caller: Caller) -> Answer:
    if route.permission is Permission.PUBLIC:
        return Answer.IN
    if caller.role is None or (caller.is_token and not route.api):
        return Answer.LOGIN
    if caller.is_token and route.in_person:
        return Answer.REFUSED
    if route.on_all and not caller.on_all:
        return Answer.REFUSED
    if route.permission is Permission.LOGGED_IN:
        return Answer.IN
    covered = route.permission in ROLE_PERMISSIONS[caller.role]
    return Answer.IN if covered else Answer.REFUSED


def named(route: Route) -> str:
    return f"{route.method} {_PATTERN.sub('', route.path)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The application over two executors, and everybody who asks."""

    admin: Served
    rewind: Rewind
    routes: list[Route]
    callers: list[Caller]
    own: Ids
    other: Ids

    async def ask(self, route: Route, caller: Caller, ids: Ids) -> Said:
        path = address(route, ids)
        sent: dict[str, Any] = {}
        if route.api and route.method != "GET":
            sent["json"] = BODIES.get(named(route), {})
        response = await self.admin.client.request(
            route.method, path, headers=caller.headers, allow_redirects=False, **sent
        )
        assert response.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY, path
        if response.content_type == "text/event-stream":
            response.close()
            return Said(response.status, "", "")
        text = await response.text()
        for noise in (path, response.headers["X-Correlation-Id"]):
            text = text.replace(noise, "")
        return Said(response.status, response.headers.get("Location", ""), text)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with served(tmp_path) as admin:
        own, other = await two_executors(admin)
        asking = await callers(admin, int(own["executor_id"]))
        for caller in asking:  # notes when a token was used for the first time
            await admin.client.get("/api/v1/me", headers=caller.headers)
        rewind = Rewind(tmp_path / "tickwheel.db")
        yield World(
            admin=admin,
            rewind=rewind,
            routes=all_routes(admin.client),
            callers=asking,
            own=own,
            other=other,
        )
        rewind.close()


def test_paths_name_only_what_is_known_here(tmp_path: Path) -> None:
    """A new kind of thing needs one of each executor in `kit.routes`, a new route does not."""

    async def find() -> set[str]:
        async with served(tmp_path) as admin:
            return {name for route in all_routes(admin.client) for name in parameters_of(route)}

    assert asyncio.run(find()) - MISSING.keys() - COMMON.keys() == set()


async def test_every_route_answers_everybody_as_it_declares(world: World) -> None:
    wrong = []
    for caller in world.callers:
        # Whoever has every executor is asked for what needs that: the rest is an admin's as well.
        for route in (each for each in world.routes if each.on_all or not caller.on_all):
            said = await world.ask(route, caller, world.own)
            answer = expected(route, caller)
            if not fits(said, answer, route):
                wrong.append(f"{caller.name}: {named(route)} answers {said.status}, not {answer}")
            if answer is Answer.IN and said.status == 404 and must_be_found(route):
                wrong.append(f"{caller.name}: {named(route)} does not find what is there")
            if FOREIGN in said.text and not caller.on_all:
                wrong.append(f"{caller.name}: {named(route)} tells of the other executor")
            changed = world.rewind.changes()
            if changed and (answer is not Answer.IN or route.method == "GET"):
                wrong.append(f"{caller.name}: {named(route)} changes {changed}")
            if changed:
                world.rewind.undo(changed)
    assert wrong == []


async def test_what_is_anothers_looks_like_what_does_not_exist(world: World) -> None:
    wrong = []
    for caller in (each for each in world.callers if not each.on_all):
        for route in (each for each in world.routes if things(each)):
            answer = expected(route, caller)
            said = await world.ask(route, caller, world.other)
            if answer is not Answer.IN:
                if not fits(said, answer, route):
                    wrong.append(f"{caller.name}: {named(route)} answers {said.status}")
                continue
            missing = await world.ask(route, caller, MISSING)
            if said != missing or said.status not in (404, 422):
                wrong.append(f"{caller.name}: {named(route)} answers {said}, not {missing}")
            if len(things(route)) > 1:  # another's node in one's own executor
                last = things(route)[-1]
                said = await world.ask(route, caller, {**world.own, last: world.other[last]})
                if said.status not in (404, 422):
                    wrong.append(f"{caller.name}: {named(route)} answers {said} to mixed ids")
            if changed := world.rewind.changes():
                wrong.append(f"{caller.name}: {named(route)} changes {changed}")
                world.rewind.undo(changed)
    assert wrong == []


def things(route: Route) -> list[str]:
    """Parameters of the path that name something of one executor or one person."""
    return [each for each in parameters_of(route) if each in MISSING]


def must_be_found(route: Route) -> bool:
    """Whether it reads something that everybody with the executor sees."""
    named_here = things(route)
    return route.method == "GET" and bool(named_here) and not {*named_here} & {*PERSONAL}


def fits(said: Said, answer: Answer, route: Route) -> bool:
    """Whether an answer is what was expected."""
    if answer is Answer.REFUSED:
        return said.status == 403
    if answer is Answer.IN:
        refused = {403} if route.permission is Permission.PUBLIC else {401, 403}
        return said.status not in refused and said.status < 500
    if route.api:
        return said.status == 401
    return said.status in (303, 401) and (said.location or LOGIN_PATH).startswith(LOGIN_PATH)
