"""Hostile values in every place of every request, as everybody: nothing fails, nothing hangs.

New routes, and what they read, are found by themselves. A run makes a part of all attempts, chosen
by its seed; more seeds make other ones:

    TICKWHEEL_FUZZ_SEEDS=0-40 TICKWHEEL_FUZZ_PER_ROUTE=40 pytest tests/admin/fuzz
    TICKWHEEL_FUZZ_DATABASES=mariadb,postgresql pytest tests/admin/fuzz
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from aiohttp import web

from tests.admin.fuzz import wire
from tests.admin.fuzz.hunt import Finding, Hunt, hunting, kinds
from tests.admin.fuzz.names import trace
from tests.admin.fuzz.plan import attempts_of, slice_of
from tests.support.nightly import often
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.routes import Routes


def _numbers(text: str) -> Sequence[int]:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


SEEDS = _numbers(os.environ.get("TICKWHEEL_FUZZ_SEEDS", "0"))
PER_ROUTE = int(os.environ.get("TICKWHEEL_FUZZ_PER_ROUTE", "1"))
DATABASES = os.environ.get("TICKWHEEL_FUZZ_DATABASES", "sqlite").split(",")
SHOWN = 20


@pytest.fixture(params=DATABASES)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    database = Database(request.getfixturevalue(f"{request.param}_url"))
    yield database
    await database.close()


@pytest.fixture
async def hunt(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Hunt]:
    trace(monkeypatch)
    async with hunting(database, tmp_path) as hunt:
        yield hunt


@pytest.mark.slow
async def test_no_value_in_any_place_makes_anything_fail(hunt: Hunt) -> None:
    hunt.routes = hunt.routes[:: often(2, by_night=1)]
    await hunt.learn()
    for seed in SEEDS:
        await hunt.run(seed=seed, per_route=PER_ROUTE)
    if hunt.findings:  # an assertion would cut off what is needed to repeat it
        pytest.fail(shown(hunt.findings), pytrace=False)
    # That nothing was found must not be because nothing got through.
    got_in = sum(hunt.statuses.get(status, 0) for status in (200, 201, 202, 204, 303))
    assert got_in > hunt.asked / 3


async def test_what_is_read_of_requests_is_found_by_itself(hunt: Hunt) -> None:
    """A few names of each kind, which nobody wrote down here for the fuzz."""
    hunt.routes = [
        route for route in hunt.routes
        if route.path in ("/jobs/new", "/api/v1/jobs", "/login")
    ]  # fmt: skip
    await hunt.learn()
    by_path = {(route.method, route.path): hunt.learned[route] for route in hunt.routes}
    assert {"name", "password", "next"} <= by_path["POST", "/login"].form.keys()
    assert {"cursor", "limit", "text"} <= by_path["GET", "/api/v1/jobs"].fields.keys()
    created = by_path["POST", "/api/v1/jobs"]
    assert {"executor_id", "name", "handler"} <= created.needed.keys()
    assert {"triggers", "triggers[0].expression"} <= created.fields.keys() | created.good.keys()
    assert "X-CSRF-Token" in created.headers
    page = max(by_path["POST", "/jobs/new"].forms, key=len)
    assert len(page) > 20


# --- it can fail -----------------------------------------------------------------------------

planted = Routes()
STORED: list[str] = []


@planted.get("/planted/number", permission=Permission.VIEW)
async def number(request: web.Request) -> web.Response:
    return web.Response(text=str(int(request.query.get("n", "1"))))


@planted.post("/planted/keep", permission=Permission.VIEW)
async def keep(request: web.Request) -> web.Response:
    STORED.append((await read_form(request)).get("kept", ""))
    return web.Response(status=204)


@planted.get("/planted/kept", permission=Permission.VIEW)
async def kept(_request: web.Request) -> web.Response:
    return web.Response(text=f"{STORED[-1].encode('latin-1') if STORED else b''!r}")


@planted.get("/planted/hang/{name:[^/]+}", permission=Permission.PUBLIC)
async def hang(request: web.Request) -> web.Response:
    if "/" in request.match_info["name"]:
        await asyncio.sleep(60)
    return web.Response()


async def test_faulty_routes_are_found_and_shown_in_a_way_to_repeat(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace(monkeypatch)
    async with hunting(database, tmp_path, extra=planted) as hunt:
        hunt.routes = [route for route in hunt.routes if route.path.startswith("/planted/")]
        await hunt.learn()
        assert hunt.findings == []
        monkeypatch.setattr(wire, "ANSWER_SECONDS", 2)
        for seed in range(3):
            await hunt.run(seed=seed, per_route=40)

        def found(route: str, name: str | None, said: str) -> Finding:
            return next(
                each for each in hunt.findings
                if (each.route, each.attempt and each.attempt.name) == (route, name)
                and said in each.said
            )  # fmt: skip

        wrong_number = found("GET /planted/number", "n", "ValueError")
        assert (await hunt.wire.ask(wrong_number.request)).status == 500
        poisoned = found("GET /planted/kept", None, "UnicodeEncodeError")
        assert any(b"kept=" in each or b'"kept"' in each for each in poisoned.before)
        found("GET /planted/hang/{name:[^/]+}", "name", "no answer")


def test_over_its_seeds_a_route_meets_every_attempt(tmp_path: Path) -> None:
    async def check() -> None:
        database = Database(f"sqlite:///{tmp_path / 'tickwheel.db'}")
        async with hunting(database, tmp_path, extra=planted) as hunt:
            route = next(route for route in hunt.routes if route.path == "/planted/keep")
            hunt.learned[route].form["kept"] = None
            of_route = attempts_of(route, hunt.learned[route])
            every = {place: attempts[:40] for place, attempts in of_route.items()}
            made = {
                attempt for seed in range(40)
                for attempt in slice_of(every, seed=seed, size=30)
            }  # fmt: skip
            assert made == {attempt for attempts in every.values() for attempt in attempts}
        await database.close()

    asyncio.run(check())


def shown(found: Sequence[Finding]) -> str:
    return "\n\n".join(str(each) for each in list(kinds(found))[:SHOWN])
