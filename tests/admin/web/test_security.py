"""The whole application under attack: what is public, methods, bodies, secrets in logs."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
import structlog

from tests.admin.kit.routes import address, all_routes, headers_of, logged_in, two_executors
from tests.admin.kit.served import GOOD_PASSWORD, Served, served
from tickwheel_admin.config import LogFormat, LogLevel
from tickwheel_admin.domain.users.user import Permission, Role, everywhere
from tickwheel_admin.log_setup import configure_logging, redact_secrets
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.web.routes import declared_routes

# --- every route -----------------------------------------------------------------------------


def test_the_public_routes_are_these_and_no_others(tmp_path: Path) -> None:
    async def find() -> list[str]:
        async with served(tmp_path) as site:
            return [
                f"{route.method} {route.path}"
                for route in all_routes(site.client)
                if route.permission is Permission.PUBLIC
            ]

    found = asyncio.run(find())
    unexpected = [
        route
        for route in found
        if not re.match(
            r"GET /static/|GET /healthz(/stream)?$|(GET|POST) /login$|GET /login/oidc(/callback)?$",
            route,
        )
    ]
    assert unexpected == []
    assert "POST /login" in found


def test_every_route_of_the_router_is_declared(tmp_path: Path) -> None:
    async def find() -> set[str]:
        async with served(tmp_path) as site:
            assert site.client.app is not None
            declared = declared_routes(site.client.app)
            return {str(r) for r in site.client.app.router.routes() if r not in declared}

    assert asyncio.run(find()) == set()


async def log_in_new(site: Served, name: str) -> str:
    """Log the client in with a fresh password; returns the CSRF token."""
    services = site.services
    one_time = await services.users.reset_password(COMMAND_LINE, name)
    first = await services.logins.login(name, one_time, address="", user_agent="")
    view = await services.logins.session(first.cookie)
    assert view is not None
    session = await services.logins.change_password(
        view.actor, first.cookie, old=one_time, new=GOOD_PASSWORD
    )
    site.client.session.cookie_jar.update_cookies({"tickwheel_session": session.cookie})
    return session.csrf_token


async def test_what_changes_something_is_never_done_by_get(site: Served) -> None:
    own, _ = await two_executors(site)
    headers = await site.token_for("root", Role.ADMIN)
    routes = all_routes(site.client)
    gets = {route.path for route in routes if route.method == "GET"}
    changing = [route for route in routes if route.method != "GET" and route.path not in gets]
    assert len(changing) > 40
    for route in changing:
        response = await site.client.get(address(route, own), headers=headers)
        assert response.status == 405, route.path


async def test_every_body_refuses_what_it_does_not_know(site: Served) -> None:
    own, _ = await two_executors(site)
    looked_for = {"version": 1, "revision": 1, "executor_id": 1}  # by some before anything else
    session = await logged_in(site, "root", everywhere(Role.ADMIN, scripts=True))
    headers = headers_of(session) | {"Idempotency-Key": "x"}  # some want one before anything else
    for route in all_routes(site.client):
        if not route.api or route.method not in ("POST", "PUT"):
            continue
        if route.path.endswith("/jobs/import"):
            continue  # its body is YAML; what its documents may hold is tested where they are read
        response = await site.client.request(
            route.method,
            address(route, own),
            headers=headers,
            json={"is_admin": True, "surprise": {"role": "admin"}} | looked_for,
        )
        where = f"{route.method} {route.path}"
        assert response.status == 422, where
        fields = {each["field"] for each in (await response.json())["error"]["problems"]}
        assert {"is_admin", "surprise"} <= fields, where


BODIES: list[tuple[str, str, dict[str, object], str]] = [
    ("PUT", "users/{user_id}", {"role": "admin"}, "role"),
    ("PUT", "users/{user_id}", {"grants": [{"role": "admin", "is_admin": 1}]},
     "grants[0].is_admin"),
    ("PUT", "users/{user_id}", {"id": 77, "disabled": True}, "id"),
    ("PUT", "jobs/{job_id}", {"id": 77, "revision": 1, "name": "x", "handler": "h"}, "id"),
    ("PUT", "jobs/{job_id}", {"executor_id": 2, "revision": 1, "name": "x", "handler": "h"},
     "executor_id"),
    ("POST", "jobs/{job_id}/run", {"executor_id": 2}, "executor_id"),
    ("POST", "tokens", {"name": "x", "user_id": 1}, "user_id"),
    ("POST", "users", {"name": "x", "password": "chosen by me"}, "password"),
]  # fmt: skip


async def test_a_body_cannot_say_whose_it_is_or_what_one_may_do(site: Served) -> None:
    own, _ = await two_executors(site)
    headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
    for method, path, body, field in BODIES:
        response = await site.client.request(
            method, f"/api/v1/{path.format(**own)}", headers=headers, json=body
        )
        assert response.status == 422, body
        assert [each["field"] for each in (await response.json())["error"]["problems"]] == [field]


def test_the_reference_of_attacks_names_tests_that_exist() -> None:
    root = Path(__file__).parents[3]
    text = (root / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 30
    for name, test in named:
        file = root / (name if name.startswith("tests/") else f"tests/admin/{name}")
        assert f"def {test}" in file.read_text(encoding="utf-8"), name


# --- many at once ----------------------------------------------------------------------------


async def test_others_are_answered_while_two_hundred_log_in(site: Served) -> None:
    async def attempt(n: int) -> int:
        form = {"name": f"user{n}", "password": "wrong password!"}
        response = await site.client.post("/login", data=form)
        return response.status

    logins = asyncio.gather(*(attempt(n) for n in range(200)))
    async with asyncio.timeout(60):
        while not logins.done():
            assert (await site.client.get("/healthz")).status == 200
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
    async with served(tmp_path) as site:
        services = site.services
        headers = await site.token_for("root", Role.ADMIN)
        csrf = await log_in_new(site, "root")
        [cookie] = [each.value for each in site.client.session.cookie_jar]
        headers = {
            "Authorization": "Bearer "
            + await services.api_tokens.create_for(COMMAND_LINE, "root", name="again")
        }
        executor = await site.services.executors.create(COMMAND_LINE, name="x", description="")
        secrets.append("canary-access-token")
        called = await site.services.xxl_executors.create(
            COMMAND_LINE, name="y", app_name="canary", token=secrets[-1]
        )
        settings = {"app_name": "canary", "token": secrets[-1], "addresses": "nonsense"}
        page = f"/executors/{called}/xxl-job"
        sent_again = await site.client.post(page, data=settings, headers={"X-CSRF-Token": csrf})
        shown.append(await sent_again.text())
        secrets += [GOOD_PASSWORD, cookie, headers["Authorization"].split()[1], executor.token]
        secrets += ["canary-typed-as-name", "canary-typed-as-password"]
        form = {"name": "canary-typed-as-name", "password": "canary-typed-as-password"}
        shown.append(await (await site.client.post("/login?next=/x", data=form)).text())
        for route in all_routes(site.client):
            if route.method == "GET" and route.path not in ("/events", "/api/v1/events"):
                sent = headers if route.api else {}  # pages by the cookie
                response = await site.client.get(address(route, {}), headers=sent)
                shown.append(await response.text())
        await site.client.get("/nothing?token=canary-in-a-query")
        secrets.append("canary-in-a-query")

        def hashes(conn: sa.Connection) -> list[str]:
            return [
                *conn.execute(sa.select(tables.user.c.password_hash)).scalars(),
                *conn.execute(sa.select(tables.api_token.c.token_hash)).scalars(),
                *conn.execute(sa.select(tables.executor.c.token_hash)).scalars(),
                *conn.execute(sa.select(tables.xxl_executor.c.token)).scalars(),
            ]

        secrets += await site.services.store.read(hashes)

    log = stream.getvalue()
    assert "http.request" in log
    assert csrf not in log
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


async def test_database_errors_do_not_tell_what_was_written(site: Served) -> None:
    def break_a_rule(conn: sa.Connection) -> None:
        conn.execute(sa.insert(tables.user).values(id=1, password_hash="canary"))

    with pytest.raises(sa.exc.IntegrityError) as failure:
        await site.services.store.run(break_a_rule)

    assert "canary" not in str(failure.value)


@pytest.mark.usefixtures("own_logging")
def test_nothing_that_is_logged_makes_an_entry_of_its_own() -> None:
    stream = io.StringIO()
    configure_logging(LogFormat.CONSOLE, LogLevel.DEBUG, stream=stream)
    sent = "a\n2026-01-01 00:00:00 [info     ] forged\r\u2028\x85b"
    try:
        raise RuntimeError(sent)
    except RuntimeError:
        structlog.get_logger("test").exception("something.failed", path=sent)
    logging.getLogger("library").error("cannot read %s", sent)

    at_margin = [line for line in stream.getvalue().splitlines() if line.startswith("20")]
    assert len(at_margin) == 2
    assert not any("forged" in line.split("path=")[0] for line in at_margin)


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
