"""What every page and endpoint gets from the web layer, shown on a few routes made for it."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import CookieJar, hdrs, web
from aiohttp.test_utils import TestClient, TestServer
from structlog.testing import capture_logs

from tests.admin.kit.clock import Clock
from tests.admin.kit.served import config_in, fresh_store, services_over
from tickwheel_admin.domain.errors import Conflict, InvalidInput, TooMany, Unavailable
from tickwheel_admin.domain.users.user import Permission, Role, everywhere
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.throttle import LoginThrottle
from tickwheel_admin.store.database.database import Database, DatabaseUnavailable
from tickwheel_admin.web import i18n
from tickwheel_admin.web.application import create_web_application
from tickwheel_admin.web.body import read_form, read_json
from tickwheel_admin.web.health import CHECKS
from tickwheel_admin.web.identity import (
    actor_of,
    are_still_allowed,
    cookie_of,
    csrf_of,
    set_session_cookie,
)
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.routes import Routes, declared_routes
from tickwheel_admin.web.server import bind, create_runner, serve

Client = TestClient[web.Request, web.Application]

routes = Routes()
CHANGED: web.AppKey[list[str]] = web.AppKey("changed")


@routes.post("/login", permission=Permission.PUBLIC)
async def login(request: web.Request) -> web.StreamResponse:
    form = await read_form(request)
    session = await request.app[SERVICES].logins.login(
        form.get("name", ""),
        form.get("password", ""),
        address="",
        user_agent="",
        replaces=cookie_of(request),
    )
    response = web.Response(status=303, headers={hdrs.LOCATION: safe_next(form.get("next"))})
    set_session_cookie(request, response, session)
    return response


@routes.get("/page", permission=Permission.VIEW)
async def page(request: web.Request) -> web.Response:
    return web.Response(text=csrf_of(request))


@routes.post("/page", permission=Permission.OPERATE)
async def change(request: web.Request) -> web.Response:
    request.app[CHANGED].append(actor_of(request).name)
    return web.Response(text="changed")


@routes.get("/password", permission=Permission.LOGGED_IN)
async def password_page(_request: web.Request) -> web.Response:
    return web.Response(text="choose one")


@routes.get("/api/v1/thing", permission=Permission.VIEW, api=True)
async def thing(request: web.Request) -> web.Response:
    return web.json_response({"actor": actor_of(request).name})


@routes.post("/api/v1/thing", permission=Permission.DEVELOP, api=True)
async def change_thing(request: web.Request) -> web.Response:
    body = await read_json(request)
    request.app[CHANGED].append(json.dumps(body))
    return web.json_response(body)


@routes.get("/stream", permission=Permission.VIEW)
async def stream(request: web.Request) -> web.StreamResponse:
    return web.Response(
        text="on" if await are_still_allowed(request.app, [request]) == [True] else "off"
    )


ERRORS: dict[str, Exception] = {
    "conflict": Conflict("job.changed", "Somebody changed it."),
    "invalid": InvalidInput.one("name", "too_long", "At most %(limit)d characters.", limit=3),
    "slow": TooMany("login.too_many", "Wait.", retry_after_seconds=7),
    "away": DatabaseUnavailable("cannot connect to db.internal: password=hunter2"),
    "unavailable": Unavailable("database.unavailable", "Away."),
    "bug": RuntimeError("SELECT secret FROM user WHERE hunter2"),
}


@routes.get("/fail/{kind}", permission=Permission.PUBLIC)
@routes.get("/api/v1/fail/{kind}", permission=Permission.PUBLIC, api=True)
async def fail(request: web.Request) -> web.Response:
    raise ERRORS[request.match_info["kind"]]


@routes.get("/fail-late/{kind}", permission=Permission.PUBLIC)
async def fail_late(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"first half")
    raise ERRORS[request.match_info["kind"]]


@pytest.fixture
async def services(tmp_path: Path, clock: Clock) -> AsyncIterator[Services]:
    async with fresh_store(tmp_path, clock) as store:
        services = make_services(store, clock)
        yield services
        services.close()


def make_services(store: Database, clock: Clock) -> Services:
    return services_over(
        store,
        throttle=LoginThrottle(clock.monotonic),
        sleep=clock.sleep,
    )


def make_app(services: Services, tmp_path: Path, **settings: object) -> web.Application:
    app = create_web_application(
        config_in(tmp_path, **settings), unavailable_when=(DatabaseUnavailable,)
    )
    app[SERVICES] = services
    app[CHANGED] = []
    routes.add_to(app)
    return app


@pytest.fixture
async def client(services: Services, tmp_path: Path) -> AsyncIterator[Client]:
    server = TestServer(make_app(services, tmp_path))
    async with TestClient(server, cookie_jar=CookieJar(unsafe=True)) as client:
        yield client


async def add_person(services: Services, name: str = "dev", role: Role = Role.DEVELOPER) -> str:
    """A person who has changed the one-time password; returns the password."""
    one_time = (await services.users.create(COMMAND_LINE, name, grants=everywhere(role))).password
    session = await services.logins.login(name, one_time, address="", user_agent="")
    view = await services.logins.session(session.cookie)
    assert view is not None
    password = f"the password of {name}"
    await services.logins.change_password(view.actor, session.cookie, old=one_time, new=password)
    return password


async def log_in(client: Client, name: str, password: str, **form: str) -> web.Response:
    response = await client.post(
        "/login", data={"name": name, "password": password, **form}, allow_redirects=False
    )
    assert response.status == 303, await response.text()
    return response


@pytest.fixture
async def csrf(client: Client, services: Services) -> str:
    """Log the client in as a developer; returns the session's CSRF token."""
    await log_in(client, "dev", await add_person(services))
    return await (await client.get("/page")).text()


# --- who may come in -------------------------------------------------------------------------


async def test_a_route_without_a_declared_permission_is_not_answered(
    services: Services, tmp_path: Path
) -> None:
    app = make_app(services, tmp_path)

    async def undeclared(_request: web.Request) -> web.Response:
        return web.Response(text="secret")

    app.router.add_get("/undeclared", undeclared)
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/undeclared")).status == 404


def test_get_and_post_of_one_path_keep_their_own_permissions(
    services: Services, tmp_path: Path
) -> None:
    found = {
        (key.method, key.resource.canonical if key.resource else ""): route.permission
        for key, route in declared_routes(make_app(services, tmp_path)).items()
    }

    assert found["GET", "/page"] is Permission.VIEW
    assert found["HEAD", "/page"] is Permission.VIEW
    assert found["POST", "/page"] is Permission.OPERATE


async def test_strangers_are_sent_to_the_login_page_and_back_afterwards(client: Client) -> None:
    response = await client.get("/page?a=1&b=%2F%2Fevil", allow_redirects=False)

    assert response.status == 303
    assert response.headers["Location"] == "/login?next=/page%3Fa%3D1%26b%3D//evil"


async def test_strange_programs_get_401(client: Client) -> None:
    response = await client.get("/api/v1/thing")

    assert response.status == 401
    assert (await response.json())["error"]["code"] == "login.required"


async def test_a_scripts_own_fetches_are_not_redirected_to_a_page(client: Client) -> None:
    block = await client.get("/page", headers={"X-Block": "rows"}, allow_redirects=False)
    stream = await client.get("/stream", headers={"Sec-Fetch-Dest": "empty"}, allow_redirects=False)

    assert (block.status, block.headers["HX-Redirect"]) == (401, "/login")
    assert stream.status == 401


@pytest.mark.parametrize(
    ("headers", "is_somebody_there"),
    [
        ({"X-Block": "rows"}, True),  # who filters a list, opens a dialog, draws a workflow
        ({"X-Block": "rows", "X-Automatic": "yes"}, False),
        ({"Accept": "text/event-stream"}, False),
    ],
)
async def test_only_what_people_do_keeps_a_session_alive(
    client: Client,
    services: Services,
    clock: Clock,
    headers: dict[str, str],
    is_somebody_there: bool,
) -> None:
    await log_in(client, "mona", await add_person(services, "mona", Role.VIEWER))

    for _ in range(2):
        clock.advance(20 * 60)
        answer = await client.get("/page", headers=headers, allow_redirects=False)

    assert (answer.status == 200) is is_somebody_there


@pytest.mark.parametrize(
    ("role", "allowed"), [(Role.VIEWER, False), (Role.OPERATOR, True), (Role.ADMIN, True)]
)
async def test_the_declared_permission_decides(
    client: Client, services: Services, role: Role, allowed: bool
) -> None:
    await log_in(client, "mona", await add_person(services, "mona", role))
    token = await (await client.get("/page")).text()

    response = await client.post("/page", data={"csrf_token": token})

    assert (response.status == 200) is allowed
    assert client.app[CHANGED] == (["mona"] if allowed else [])


async def test_a_bearer_token_opens_the_api_but_no_page(client: Client, services: Services) -> None:
    await add_person(services)
    token = await services.api_tokens.create_for(COMMAND_LINE, "dev", name="ci")
    headers = {"Authorization": f"Bearer {token}"}

    api = await client.post("/api/v1/thing", json={"a": 1}, headers=headers)
    page = await client.get("/page", headers=headers, allow_redirects=False)

    assert api.status == 200
    assert page.status == 303


@pytest.mark.parametrize(
    "header", ["Bearer twe_" + "x" * 43, "Bearer", "Basic YWRtaW46YWRtaW4=", "Bearer twt_\xff", ""]
)
async def test_a_wrong_bearer_is_not_made_good_by_a_cookie(
    client: Client, csrf: str, header: str
) -> None:
    response = await client.get("/api/v1/thing", headers={"Authorization": header})

    assert response.status == 401


async def test_who_must_change_the_password_can_do_nothing_else(
    client: Client, services: Services
) -> None:
    one_time = (
        await services.users.create(COMMAND_LINE, "newcomer", grants=everywhere(Role.ADMIN))
    ).password
    await log_in(client, "newcomer", one_time)

    page = await client.get("/page", allow_redirects=False)
    api = await client.get("/api/v1/thing")

    assert (page.status, page.headers["Location"]) == (303, "/password")
    assert api.status == 403
    assert (await api.json())["error"]["code"] == "password.change_required"
    assert (await client.get("/password")).status == 200


async def test_streams_end_with_their_session(
    client: Client, services: Services, csrf: str
) -> None:
    assert await (await client.get("/stream")).text() == "on"
    await services.users.set_disabled(COMMAND_LINE, "dev", disabled=True)
    assert (await client.get("/stream", allow_redirects=False)).status == 303


# --- cookies and sessions --------------------------------------------------------------------


@pytest.mark.parametrize("public_url", ["http://127.0.0.1:8500", "https://tickwheel.example"])
async def test_the_cookie_has_its_flags(
    services: Services, tmp_path: Path, public_url: str
) -> None:
    password = await add_person(services)
    app = make_app(services, tmp_path, public_url=public_url)
    async with TestClient(TestServer(app)) as client:
        cookie = (await log_in(client, "dev", password)).headers["Set-Cookie"]

    flags = {part.strip().lower() for part in cookie.split(";")[1:]}
    secure = {"secure"} if public_url.startswith("https") else set()
    assert flags == {"httponly", "path=/", "samesite=lax"} | secure


async def test_login_gives_a_new_session_and_ends_the_old_one(
    client: Client, services: Services, csrf: str
) -> None:
    [before] = [cookie.value for cookie in client.session.cookie_jar]
    await log_in(client, "dev", "the password of dev")
    [after] = [cookie.value for cookie in client.session.cookie_jar]

    assert before != after
    assert await services.logins.session(before) is None


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("/jobs?view=failing#x", "/jobs?view=failing#x"),
        ("/", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/\n/evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("\\\\evil.example", "/"),
        (" //evil.example", "/"),
        ("/a\\b", "/"),
        ("/a\r\nSet-Cookie: x=1", "/"),
        ("jobs", "/"),
        ("", "/"),
        ("/" + "a" * 3000, "/"),
        ("/%2F%2Fevil.example", "/%2F%2Fevil.example"),  # stays a path: browsers do not decode it
    ],
)
async def test_next_never_leaves_this_server(
    client: Client, services: Services, wanted: str, given: str
) -> None:
    response = await log_in(client, "dev", await add_person(services), next=wanted)

    assert response.headers["Location"] == given


# --- cross-site requests ---------------------------------------------------------------------


async def test_our_own_form_and_script_may_change_things(client: Client, csrf: str) -> None:
    assert (await client.post("/page", data={"csrf_token": csrf})).status == 200
    assert (await client.post("/page", headers={"X-CSRF-Token": csrf})).status == 200
    same = {"Sec-Fetch-Site": "same-origin", "X-CSRF-Token": csrf}
    assert (await client.post("/api/v1/thing", json={}, headers=same)).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://["},
    ],
)
async def test_another_sites_page_cannot_even_with_the_token(
    client: Client, csrf: str, headers: dict[str, str]
) -> None:
    response = await client.post("/page", data={"csrf_token": csrf}, headers=headers)

    assert response.status == 403
    assert client.app[CHANGED] == []


@pytest.mark.parametrize("token", ["", "wrong", "stale" * 10, "ü"])
async def test_without_the_sessions_own_token_nothing_changes(
    client: Client, csrf: str, token: str
) -> None:
    form = await client.post("/page", data={"csrf_token": token})
    script = await client.post("/page", headers={"X-CSRF-Token": quote(token)})
    plain = await client.post(
        "/api/v1/thing", data=b'{"a":1}', headers={"Content-Type": "text/plain"}
    )

    assert {form.status, script.status, plain.status} == {403}
    assert client.app[CHANGED] == []


async def test_another_sessions_token_does_not_count(
    client: Client, csrf: str, services: Services
) -> None:
    await log_in(client, "dev", "the password of dev")

    assert (await client.post("/page", data={"csrf_token": csrf})).status == 403


async def test_a_cross_site_login_is_refused(client: Client, services: Services) -> None:
    password = await add_person(services)
    response = await client.post(
        "/login",
        data={"name": "dev", "password": password},
        headers={"Origin": "https://evil.example"},
    )

    assert response.status == 403
    assert not list(client.session.cookie_jar)


async def test_other_methods_are_not_taken(client: Client, csrf: str) -> None:
    for method in ("PUT", "DELETE", "PATCH", "TRACE"):
        response = await client.request(method, "/page", headers={"X-CSRF-Token": csrf})
        assert response.status == 405
        assert "GET" in response.headers["Allow"]


# --- bodies ----------------------------------------------------------------------------------


async def bearer(services: Services) -> dict[str, str]:
    await add_person(services)
    token = await services.api_tokens.create_for(COMMAND_LINE, "dev", name="ci")
    return {"Authorization": f"Bearer {token}"}


async def test_a_body_over_one_mebibyte_is_refused(client: Client, services: Services) -> None:
    headers = await bearer(services) | {"Content-Type": "application/json"}
    body = io.BytesIO(b'{"a":"' + b"x" * 2**20 + b'"}')

    response = await client.post("/api/v1/thing", data=body, headers=headers)

    assert response.status == 413
    assert (await response.json())["error"]["code"] == "too_large"


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b"{", "application/json", 422, "json.invalid"),
        (b"[1]", "application/json", 422, "json.not_an_object"),
        (b"NaN", "application/json", 422, "json.invalid"),
        (b'{"a": NaN}', "application/json", 422, "json.invalid"),
        (b'"\xff"', "application/json", 422, "json.invalid"),
        (b'{"a":' * 5_000, "application/json", 422, "json.invalid"),
        (b"{}", "text/plain", 415, "unsupported_type"),
        (b"a=1", "application/x-www-form-urlencoded", 415, "unsupported_type"),
    ],
)
async def test_a_body_that_is_not_a_json_object_is_refused(
    client: Client, services: Services, body: bytes, content_type: str, status: int, code: str
) -> None:
    headers = await bearer(services) | {"Content-Type": content_type}

    response = await client.post("/api/v1/thing", data=body, headers=headers)

    error = (await response.json())["error"]
    codes = [problem["code"] for problem in error["problems"]] or [error["code"]]
    assert (response.status, codes) == (status, [code])
    assert client.app[CHANGED] == []


async def test_packed_bodies_are_refused_unread(client: Client, services: Services) -> None:
    headers = await bearer(services) | {"Content-Encoding": "gzip"}

    response = await client.post("/api/v1/thing", data=b"x", headers=headers)

    assert response.status in (400, 415)
    assert client.app[CHANGED] == []


# --- answers ---------------------------------------------------------------------------------

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@pytest.mark.parametrize("path", ["/healthz", "/page", "/nothing", "/fail/bug", "/api/v1/thing"])
async def test_every_answer_has_the_security_headers(client: Client, path: str) -> None:
    response = await client.get(path, allow_redirects=False)

    assert response.headers["Content-Security-Policy"] == POLICY
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Server"] == "tickwheel"
    assert "Strict-Transport-Security" not in response.headers


async def test_over_tls_browsers_are_told_to_stay_there(services: Services, tmp_path: Path) -> None:
    app = make_app(services, tmp_path, public_url="https://tickwheel.example")
    async with TestClient(TestServer(app)) as client:
        response = await client.get("/healthz")

    assert "max-age" in response.headers["Strict-Transport-Security"]


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("conflict", 409, "job.changed"),
        ("invalid", 422, "invalid_input"),
        ("slow", 429, "login.too_many"),
        ("away", 503, "database.unavailable"),
        ("unavailable", 503, "database.unavailable"),
        ("bug", 500, "internal"),
    ],
)
async def test_errors_have_a_code_an_id_and_no_trace(
    client: Client, kind: str, status: int, code: str
) -> None:
    response = await client.get(f"/api/v1/fail/{kind}")
    page = await client.get(f"/fail/{kind}")

    assert (response.status, page.status) == (status, status)
    error = (await response.json())["error"]
    assert error["code"] == code
    assert error["correlation_id"] == response.headers["X-Correlation-Id"]
    for text in (await response.text(), await page.text()):
        assert not re.search(r"Traceback|hunter2|SELECT|\.py", text)


async def test_problems_name_field_and_code(client: Client) -> None:
    error = (await (await client.get("/api/v1/fail/invalid")).json())["error"]

    assert error["problems"] == [
        {"field": "name", "code": "too_long", "message": "At most 3 characters."}
    ]


async def test_who_must_wait_is_told_how_long(client: Client) -> None:
    assert (await client.get("/api/v1/fail/slow")).headers["Retry-After"] == "7"
    assert (await client.get("/api/v1/fail/away")).headers["Retry-After"] == "5"


async def test_the_trace_of_a_bug_is_in_the_log_under_the_same_id(client: Client) -> None:
    with capture_logs() as events:
        await client.get("/api/v1/fail/bug")

    assert [event["event"] for event in events] == ["http.failed", "http.request"]
    assert events[1]["status"] == 500


@pytest.mark.parametrize("kind", ["bug", "away", "conflict"])
async def test_a_stream_that_fails_is_cut_off(client: Client, kind: str) -> None:
    with capture_logs() as events, pytest.raises(Exception, match=r"(?i)payload|closed|reset"):
        await (await client.get(f"/fail-late/{kind}")).read()

    assert ("http.failed" in [event["event"] for event in events]) == (kind == "bug")


async def test_unknown_paths_are_json_for_programs(client: Client) -> None:
    assert (await (await client.get("/api/v1/nothing")).json())["error"]["code"] == "not_found"


async def test_the_log_has_paths_but_no_queries(client: Client) -> None:
    with capture_logs() as events:
        await client.get("/nothing?token=hunter2")

    assert "hunter2" not in str(events)
    assert events[-1]["path"] == "/nothing"


# --- proxies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trusted", "forwarded", "address"),
    [
        ("", "203.0.113.5", "127.0.0.1"),
        ("127.0.0.0/8", "203.0.113.5", "203.0.113.5"),
        ("127.0.0.0/8", "6.6.6.6, 203.0.113.5", "203.0.113.5"),
        ("127.0.0.0/8 10.0.0.0/8", "203.0.113.5, 10.1.2.3", "203.0.113.5"),
        ("127.0.0.0/8", "not an address", "127.0.0.1"),
        ("127.0.0.0/8", "", "127.0.0.1"),
    ],
)
async def test_only_trusted_proxies_say_where_a_request_came_from(
    services: Services, tmp_path: Path, trusted: str, forwarded: str, address: str
) -> None:
    app = make_app(services, tmp_path, trusted_proxies=trusted)
    async with TestClient(TestServer(app)) as client:
        with capture_logs() as events:
            await client.get("/nothing", headers={"X-Forwarded-For": forwarded})

    assert events[-1]["address"] == address


async def test_a_trusted_proxy_can_say_that_it_ended_tls(
    services: Services, tmp_path: Path
) -> None:
    told = {"X-Forwarded-Proto": "https"}
    for trusted, expected in (("127.0.0.0/8", True), ("10.0.0.0/8", False)):
        app = make_app(services, tmp_path, trusted_proxies=trusted)
        async with TestClient(TestServer(app)) as client:
            response = await client.get("/healthz", headers=told)
        assert ("Strict-Transport-Security" in response.headers) is expected


# --- health ----------------------------------------------------------------------------------


async def test_health_tells_every_check(client: Client) -> None:
    async def fine() -> str:
        return "ok"

    async def away() -> str:
        raise DatabaseUnavailable("db.internal")

    client.app[CHECKS]["loops"] = fine
    healthy = await client.get("/healthz")
    client.app[CHECKS]["database"] = away
    failing = await client.get("/healthz")

    assert (healthy.status, await healthy.json()) == (
        200,
        {"status": "ok", "checks": {"loops": "ok"}},
    )
    assert (failing.status, await failing.json()) == (
        503,
        {"status": "failing", "checks": {"loops": "ok", "database": "does not answer"}},
    )


# --- connections -----------------------------------------------------------------------------


async def listen(app: web.Application, header_seconds: float) -> tuple[web.AppRunner, int]:
    runner = create_runner(app, shutdown_seconds=0.2)
    await runner.setup()
    sockets = bind("127.0.0.1", 0)
    await serve(runner, sockets, header_seconds=header_seconds)
    return runner, sockets[0].getsockname()[1]


async def test_half_sent_headers_are_cut_off_while_others_are_served(
    services: Services, tmp_path: Path
) -> None:
    runner, port = await listen(make_app(services, tmp_path), header_seconds=0.3)
    slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
    for _reader, writer in slow[:25]:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")

    async with asyncio.timeout(5):
        for slow_reader, _writer in slow:
            # A reset or an orderly end; only silence for ever would be wrong.
            assert await _ended(slow_reader)
    for _reader, each in [*slow, (reader, writer)]:
        each.close()
    await runner.cleanup()


async def test_a_header_in_time_may_be_followed_by_a_slow_body_and_a_second_request(
    services: Services, tmp_path: Path
) -> None:
    headers = await bearer(services)
    runner, port = await listen(make_app(services, tmp_path), header_seconds=0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /api/v1/thing HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        + f"Authorization: {headers['Authorization']}\r\nContent-Length: 8\r\n\r\n".encode()
    )
    for byte in b'{"a": 1}':
        writer.write(bytes([byte]))
        await asyncio.sleep(0.06)
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(8)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
    writer.close()
    await runner.cleanup()


async def test_a_body_that_does_not_arrive_is_given_up(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.web.body.BODY_SECONDS", 0.1)
    headers = await bearer(services)
    runner, port = await listen(make_app(services, tmp_path), header_seconds=5)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /api/v1/thing HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        + f"Authorization: {headers['Authorization']}\r\nContent-Length: 999\r\n\r\n{{".encode()
    )
    async with asyncio.timeout(5):
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 408")
    writer.close()
    await runner.cleanup()


async def test_thousands_of_headers_are_refused(services: Services, tmp_path: Path) -> None:
    runner, port = await listen(make_app(services, tmp_path), header_seconds=5)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 10_000 + b"\r\n")
    status = await reader.readuntil(b"\r\n")
    writer.close()
    await runner.cleanup()

    assert status.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400", b"HTTP/1.1 431"))


def test_a_taken_port_is_known_before_anything_starts() -> None:
    [sock] = bind("127.0.0.1", 0)
    with sock, pytest.raises(OSError, match=r"(?i)in use"):
        bind("127.0.0.1", sock.getsockname()[1])


async def _ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


# --- languages -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("en-GB,en;q=0.9", "en"),
        ("zh", "zh_CN"),
        ("zh-Hans-CN", "zh_CN"),
        ("zh-TW,zh;q=0.8,en;q=0.7", "zh_Hant"),
        ("zh-Hant", "zh_Hant"),
        ("zh-HK", "zh_Hant"),
        ("zh-Hans-HK", "zh_CN"),
        ("zh-SG", "zh_CN"),
        ("de,en;q=0.8,zh;q=0.9", "zh_CN"),
        ("zh;q=0,en", "en"),
        ("fr, de;q=oops, *", "en"),
    ],
)
def test_the_best_of_our_languages_is_chosen(header: str, language: str) -> None:
    assert i18n.negotiate(header) == language


def test_a_text_without_a_translation_is_shown_in_english() -> None:
    assert i18n.translate("Never seen %(n)s times.", {"n": 3}, "zh_CN") == "Never seen 3 times."
    assert i18n.translate("", {}, "zh_CN") == ""
