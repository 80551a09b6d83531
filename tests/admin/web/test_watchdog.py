"""What holds the event loop is named, and told to people when it was our own doing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from tests.support.polling import wait_until_async
from tickwheel_admin.web import watchdog
from tickwheel_admin.web.watchdog import Stall, Watchdog


@pytest.fixture
def dog(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watchdog]:
    monkeypatch.setattr(watchdog, "OURS", __name__)  # as if this were our code
    dog = Watchdog(seconds=0.1)
    yield dog
    dog.stop()


def compute_for_long(dog: Watchdog) -> None:
    """Hold the loop until the watchdog has looked."""
    deadline = time.monotonic() + 10
    while dog._seen is None and time.monotonic() < deadline:
        time.sleep(0.01)


async def test_what_holds_the_loop_is_named_with_its_request(dog: Watchdog) -> None:
    async def show(request: web.Request) -> web.Response:
        compute_for_long(dog)
        return web.Response()

    from aiohttp.test_utils import TestClient, TestServer

    app = web.Application()
    app.router.add_get("/slow/{thing}", show)
    async with TestClient(TestServer(app)) as client:
        dog.start()
        with capture_logs() as logs:
            await client.get("/slow/secret")
            await wait_until_async(lambda: bool(dog.stalls), what="the stall to be reported")
            compute_for_long(dog)
            await wait_until_async(lambda: len(dog.stalls) > 1, what="the second one")
    first = dog.stalls[0]
    assert first.milliseconds >= 100
    assert dog.count == len(dog.stalls)
    assert dog.seconds == pytest.approx(sum(each.milliseconds for each in dog.stalls) / 1000, 0.1)
    assert first.request == "GET /slow/{thing}"
    assert first.stack[0].startswith("compute_for_long (admin/web/test_watchdog.py:")
    assert any("show" in frame for frame in first.stack)
    [event] = [entry for entry in logs if entry["event"] == "loop.stalled"]  # not one for each
    assert (event["place"], event["count"]) == (first.stack[0], 1)
    assert "secret" not in str(event)


def test_people_are_told_of_the_worst_that_was_our_own_doing(dog: Watchdog) -> None:
    now = time.monotonic()
    assert dog.told() is None
    starved = Stall(at=now, milliseconds=700, busy=False, stack=(), request="")
    dog.stalls.append(starved)
    assert dog.told() is None  # the machine was busy; no piece of our work is to blame
    for milliseconds, seconds_ago in ((300, 5), (200, 1), (900, watchdog.TOLD_SECONDS + 1)):
        dog.stalls.append(
            Stall(
                at=now - seconds_ago,
                milliseconds=milliseconds,
                busy=True,
                stack=("f (a.py:1)",),
                request="GET /x",
            )
        )
    told = dog.told()
    assert told is not None
    assert (told.milliseconds, told.count, told.place) == (300, 2, "f (a.py:1)")
    dog.stalls.append(Stall(at=now, milliseconds=1_500, busy=False, stack=(), request=""))
    told = dog.told()
    assert told is not None
    assert told.milliseconds == 1_500  # so long a silence is told whatever it was


async def test_a_loop_that_lives_is_not_reported(dog: Watchdog) -> None:
    dog.start()
    await asyncio.sleep(0)
    assert not dog.stalls
