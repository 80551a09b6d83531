"""The whole application under attack: every route and role, scopes, secrets in logs and pages."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
import structlog

from tests.admin.kit import (
    GOOD_PASSWORD,
    Client,
    Served,
    served,
)
from tickwheel_admin.config import LogFormat, LogLevel
from tickwheel_admin.domain.run import Origin
from tickwheel_admin.domain.user import ROLE_PERMISSIONS, Permission, Role
from tickwheel_admin.log_setup import configure_logging, redact_secrets
from tickwheel_admin.services.people import COMMAND_LINE
from tickwheel_admin.store import tables
from tickwheel_admin.store.nodes import Arrival, admit_node
from tickwheel_admin.web.identity import LOGIN_PATH
from tickwheel_admin.web.routes import Route, declared_routes

STRANGERS: tuple[dict[str, str], ...] = (
    {},
    {"Authorization": "Bearer twx_" + "n" * 43},  # what a node's token looks like
    {"Cookie": "tickwheel_session=made-up"},
)
ID = ":[0-9]{1,15}}"  # as paths say that a part is an id
NOTHING = dict.fromkeys(("executor_id", "job_id", "trigger_id", "run_id", "node_id"), 999)
EDITS: dict[str, dict[str, object]] = {
    "/api/v1/jobs/{job_id}": {"revision": 1, "name": "x", "handler": "h"},
    "/api/v1/jobs/{job_id}/state": {"state": {}},
    "/api/v1/executors/{executor_id}/code-jobs": {"policy": "ask"},
    "/api/v1/nodes/{node_id}/slots": {"slots": 2},
    "/api/v1/nodes/{node_id}/weight": {"weight": 2},
    "/api/v1/calendars/{calendar_id}": {"version": 1, "name": "x", "dates": ["2026-10-01"]},
}
CHANGING = (
    "jobs/1/run",
    "jobs/1/pause",
    "jobs/1/triggers/1/pause",
    "runs/1/cancel",
    "runs/1/release",
    "runs/1/retry",
    "executors/1/token",
    "executors/1/pause",
    "nodes/1/drain",
    "system/pause",
)


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as admin:
        yield admin


async def two_executors(admin: Served) -> tuple[dict[str, int], dict[str, int]]:
    """Ids of an executor with a job, a trigger, a run and a node; twice."""
    worlds = []
    for name in ("own", "other"):
        services = admin.services
        executor = await services.executors.create(COMMAND_LINE, name=name, description="")
        job_id = await services.jobs.create(
            COMMAND_LINE,
            executor.id,
            {
                "name": f"{name}-job",
                "handler": "h",
                "triggers": [{"kind": "fixed_rate", "every_seconds": 3_600}],
            },
        )
        detail = await services.jobs.get(COMMAND_LINE, job_id)
        run_id = await services.jobs.run_now(
            COMMAND_LINE, job_id, parameters=None, request_key=None, origin=Origin.MANUAL
        )
        arrival = Arrival(
            executor_id=executor.id,
            node_key=name,
            name=f"{name}-node",
            sdk="",
            slots=1,
            handlers=["h"],
            unstoppable=[],
            labels={},
            weight=1,
            address="192.0.2.9",
        )
        node_id = 100 + executor.id
        await services.store.run(
            admit_node, arrival, new_id=node_id, admin_id=1, session_id=node_id
        )
        worlds.append(
            {
                "executor_id": executor.id,
                "job_id": job_id,
                "trigger_id": detail.item.triggers[0].id,
                "run_id": run_id,
                "node_id": node_id,
            }
        )
    return worlds[0], worlds[1]


async def confine(admin: Served, name: str, executor_id: int) -> None:
    """Restrict a person's role to one executor."""

    def move(conn: sa.Connection) -> None:
        user_id = conn.execute(
            sa.select(tables.user.c.id).where(tables.user.c.name == name)
        ).scalar_one()
        conn.execute(
            sa.update(tables.grant)
            .where(tables.grant.c.user_id == user_id)
            .values(executor_id=executor_id)
        )

    await admin.services.store.run(move)


def all_routes(client: Client) -> list[Route]:
    assert client.app is not None
    return sorted(set(declared_routes(client.app).values()), key=lambda r: (r.path, r.method))


def address(route: Route, ids: dict[str, int]) -> str:
    """The route's path with ids of existing things in it."""

    def fill(match: re.Match[str]) -> str:
        return str(ids.get(match[1], 1))

    return re.sub(r"\{(\w+)(?::[^{}]*(?:\{[^{}]*\}[^{}]*)*)?\}", fill, route.path)


# --- every route -----------------------------------------------------------------------------


def test_the_public_routes_are_these_and_no_others(tmp_path: Path) -> None:
    async def find() -> list[str]:
        async with served(tmp_path) as admin:
            return [
                f"{route.method} {route.path}"
                for route in all_routes(admin.client)
                if route.permission is Permission.PUBLIC
            ]

    found = asyncio.run(find())
    unexpected = [
        route
        for route in found
        if not re.match(r"GET /static/|GET /healthz$|(GET|POST) /login$", route)
    ]
    assert unexpected == []
    assert "POST /login" in found


def test_every_route_of_the_router_is_declared(tmp_path: Path) -> None:
    async def find() -> set[str]:
        async with served(tmp_path) as admin:
            assert admin.client.app is not None
            declared = declared_routes(admin.client.app)
            return {str(r) for r in admin.client.app.router.routes() if r not in declared}

    assert asyncio.run(find()) == set()


async def test_strangers_get_nothing_but_the_way_to_the_login(admin: Served) -> None:
    own, _ = await two_executors(admin)
    for route in all_routes(admin.client):
        if route.permission is Permission.PUBLIC:
            continue
        for headers in STRANGERS:
            response = await admin.client.request(
                route.method, address(route, own), headers=headers, allow_redirects=False
            )
            where = f"{route.method} {route.path} {headers}"
            if route.api:
                assert response.status == 401, where
            else:
                assert response.status in (303, 401), where
                assert response.headers.get("Location", LOGIN_PATH).startswith(LOGIN_PATH), where


@pytest.mark.parametrize("role", list(Role))
async def test_a_role_opens_the_routes_of_its_permissions_and_no_others(
    admin: Served, role: Role
) -> None:
    own, _ = await two_executors(admin)
    headers = await admin.token_for("somebody", role)
    for route in all_routes(admin.client):
        if not route.api or route.permission is Permission.PUBLIC:
            continue
        response = await admin.client.request(
            route.method,
            address(route, own | NOTHING),
            headers=headers,
        )
        covered = (
            route.permission is Permission.LOGGED_IN or route.permission in ROLE_PERMISSIONS[role]
        )
        assert (response.status != 403) is covered, f"{route.method} {route.path}"


async def test_a_viewer_can_change_nothing_by_page_either(admin: Served) -> None:
    own, _ = await two_executors(admin)
    await admin.token_for("viewer", Role.VIEWER)
    csrf = await log_in_new(admin, "viewer")
    guarded = [
        route
        for route in all_routes(admin.client)
        if not route.api and route.permission in ROLE_PERMISSIONS[Role.ADMIN] - {Permission.VIEW}
    ]
    assert len(guarded) > 10
    for route in guarded:
        response = await admin.client.request(
            route.method,
            address(route, own),
            headers={"X-CSRF-Token": csrf},
            allow_redirects=False,
        )
        assert response.status == 403, f"{route.method} {route.path}"


async def log_in_new(admin: Served, name: str) -> str:
    """Log the client in with a fresh password; returns the CSRF token."""
    people = admin.services.people
    one_time = await people.reset_password(COMMAND_LINE, name)
    first = await people.login(name, one_time, address="", user_agent="")
    view = await people.session(first.cookie)
    assert view is not None
    session = await people.change_password(
        view.actor, first.cookie, old=one_time, new=GOOD_PASSWORD
    )
    admin.client.session.cookie_jar.update_cookies({"tickwheel_session": session.cookie})
    return session.csrf_token


async def test_what_lies_outside_ones_scope_looks_like_nothing(admin: Served) -> None:
    own, other = await two_executors(admin)
    headers = await admin.token_for("somebody", Role.ADMIN)
    await confine(admin, "somebody", own["executor_id"])
    for route in all_routes(admin.client):
        if not route.api or "{" not in route.path or "static" in route.path:
            continue
        answers = []
        for ids in (other, NOTHING):
            response = await admin.client.request(
                route.method,
                address(route, ids),
                headers=headers,
                json=EDITS[route.path.replace(ID, "}")] if route.method == "PUT" else None,
            )
            error = (await response.json())["error"]
            answers.append((response.status, error["code"], error["message"]))
        assert answers[0] == answers[1], f"{route.method} {route.path}"
        assert answers[0][0] == 404, f"{route.method} {route.path}"


async def test_lists_hold_nothing_of_another_scope(admin: Served) -> None:
    own, other = await two_executors(admin)
    headers = await admin.token_for("somebody", Role.DEVELOPER)
    await confine(admin, "somebody", own["executor_id"])
    for path in ("executors", "jobs", "runs"):
        text = await (await admin.client.get(f"/api/v1/{path}", headers=headers)).text()
        assert "own" in text
        assert "other" not in text
    for path in ("jobs", "runs"):
        response = await admin.client.get(
            f"/api/v1/{path}?executor_id={other['executor_id']}", headers=headers
        )
        assert response.status == 404 or (await response.json())["items"] == []
    response = await admin.client.post(
        "/api/v1/jobs",
        json={"executor_id": other["executor_id"], "name": "x", "handler": "h"},
        headers=headers,
    )
    assert response.status == 404


async def test_a_get_changes_nothing(admin: Served) -> None:
    own, _ = await two_executors(admin)
    headers = await admin.token_for("root", Role.ADMIN)

    def snapshot(conn: sa.Connection) -> str:
        watched = (
            tables.executor,
            tables.node,
            tables.job,
            tables.trigger,
            tables.run,
            tables.setting,
            tables.audit,
        )
        return str([conn.execute(table.select()).all() for table in watched])

    before = await admin.services.store.read(snapshot)
    for route in all_routes(admin.client):
        if route.method == "GET" and route.api:
            await admin.client.get(address(route, own), headers=headers)
    for path in CHANGING:
        assert (await admin.client.get(f"/api/v1/{path}", headers=headers)).status == 405

    assert await admin.services.store.read(snapshot) == before


# --- many at once ----------------------------------------------------------------------------


async def test_others_are_answered_while_two_hundred_log_in(admin: Served) -> None:
    async def attempt(n: int) -> int:
        form = {"name": f"user{n}", "password": "wrong password!"}
        response = await admin.client.post("/login", data=form)
        return response.status

    logins = asyncio.gather(*(attempt(n) for n in range(200)))
    async with asyncio.timeout(5):
        while not logins.done():
            assert (await admin.client.get("/healthz")).status == 200
    assert set(await logins) <= {401, 422, 429}
    assert 429 in await logins


# --- secrets ---------------------------------------------------------------------------------


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Afterwards logging is as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


@pytest.mark.usefixtures("own_logging")
async def test_secrets_are_in_no_log_page_or_answer(tmp_path: Path) -> None:
    stream = io.StringIO()
    configure_logging(LogFormat.JSON, LogLevel.DEBUG, stream=stream)
    secrets: list[str] = []
    shown: list[str] = []
    async with served(tmp_path) as admin:
        people = admin.services.people
        headers = await admin.token_for("root", Role.ADMIN)
        csrf = await log_in_new(admin, "root")
        [cookie] = [each.value for each in admin.client.session.cookie_jar]
        headers = {
            "Authorization": "Bearer "
            + await people.create_api_token(COMMAND_LINE, "root", name="again")
        }
        executor = await admin.services.executors.create(COMMAND_LINE, name="x", description="")
        secrets += [GOOD_PASSWORD, cookie, csrf, headers["Authorization"], executor.token]
        secrets += ["canary-typed-as-name", "canary-typed-as-password"]
        form = {"name": "canary-typed-as-name", "password": "canary-typed-as-password"}
        shown.append(await (await admin.client.post("/login?next=/x", data=form)).text())
        for route in all_routes(admin.client):
            if route.method == "GET" and route.api:
                response = await admin.client.get(address(route, {}), headers=headers)
                shown.append(await response.text())
        await admin.client.get("/nothing?token=canary-in-a-query")
        secrets.append("canary-in-a-query")

        def hashes(conn: sa.Connection) -> list[str]:
            return [
                *conn.execute(sa.select(tables.user.c.password_hash)).scalars(),
                *conn.execute(sa.select(tables.api_token.c.token_hash)).scalars(),
                *conn.execute(sa.select(tables.executor.c.token_hash)).scalars(),
            ]

        secrets += await admin.services.store.read(hashes)

    log = stream.getvalue()
    assert "http.request" in log
    for secret in secrets:
        assert secret not in log
        if not secret.startswith("canary-typed-as-name"):  # a form shows the name again
            assert secret not in "".join(shown)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("password", "hunter2"),
        ("claim_token", "hunter2"),
        ("Authorization", "hunter2"),
        ("url", "mysql+pymysql://tickwheel:hunter2@db/tickwheel"),
        ("exception", "… Authorization: Bearer hunter2 …"),
        ("cause", "Cookie: tickwheel_session=hunter2; a=b"),
        ("cause", ["token", "twt_hunter2hunter2hunter2hunter2"]),
        ("cause", RuntimeError("twx_hunter2hunter2hunter2hunter2")),
        ("row", "$argon2id$v=19$m=8,t=1,p=1$hunter2$hunter2"),
    ],
)
def test_what_looks_like_a_secret_is_cut_out_of_events(field: str, value: object) -> None:
    event = redact_secrets(None, "info", {"event": "x", field: value, "job_id": 7})

    assert "hunter2" not in str(event)
    assert event["job_id"] == 7


async def test_database_errors_do_not_tell_what_was_written(admin: Served) -> None:
    def break_a_rule(conn: sa.Connection) -> None:
        conn.execute(sa.insert(tables.user).values(id=1, password_hash="canary"))

    with pytest.raises(sa.exc.IntegrityError) as failure:
        await admin.services.store.run(break_a_rule)

    assert "canary" not in str(failure.value)


@pytest.mark.usefixtures("own_logging")
def test_traces_show_no_local_variables() -> None:
    stream = io.StringIO()
    configure_logging(LogFormat.CONSOLE, LogLevel.DEBUG, stream=stream)
    password = "hunter2"  # noqa: F841 - a local that a careless trace would show
    try:
        raise RuntimeError("oops")
    except RuntimeError:
        structlog.get_logger("test").exception("something.failed")

    assert "oops" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
