"""The stream of events of runs: what it tells to whom, and how a reader goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientResponse

from tests.admin.api.test_api import Api, api
from tickwheel_admin.api.runs import event_stream
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Grant, Role, everywhere
from tickwheel_admin.services.runs import events as run_events
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.runs.events.feed import remove_old_events

__all__ = ["api"]  # the fixture

ADMIN = Actor(user_id=1, name="root", grants={ALL_EXECUTORS: Role.ADMIN})
WAIT_SECONDS = 20


@dataclass
class Block:
    """What stands between two empty lines."""

    event: str = ""
    id: str = ""
    data: Any = None
    comments: list[str] = field(default_factory=list)


class Reader:
    """A client of the stream."""

    def __init__(self, response: ClientResponse) -> None:
        self.response = response

    async def block(self) -> Block | None:
        """The next one; None: the stream has ended."""
        block = Block()
        async with asyncio.timeout(WAIT_SECONDS):
            while line := (await self.response.content.readline()).decode():
                name, _, value = line.rstrip("\n").partition(": ")
                if not line.strip():
                    return block
                if name == "event":
                    block.event = value
                elif name == "id":
                    block.id = value
                elif name == "data":
                    block.data = json.loads(value)
                else:
                    block.comments.append(line.strip())
        return None

    async def next(self, event: str) -> Block:
        while (block := await self.block()) is not None:
            if block.event:
                assert block.event == event, block
                return block
        raise AssertionError("the stream has ended")

    async def runs(self, count: int) -> list[Any]:
        blocks = [await self.next("run") for _ in range(count)]
        assert [block.id for block in blocks] == [str(block.data["seq"]) for block in blocks]
        return [block.data for block in blocks]


@asynccontextmanager
async def reading(api: Api, query: str = "", **headers: str) -> AsyncIterator[Reader]:
    response = await api.request("GET", f"/events{query}", **headers)
    try:
        assert response.status == 200, await response.text()
        assert response.content_type == "text/event-stream"
        yield Reader(response)
    finally:
        response.close()


@pytest.fixture
def ready(api: Api) -> Api:
    """There is one admin, which knows at once."""
    api.admin.services.run_events.ready_ms = 0
    return api


async def run_and_cancel(api: Api, job_id: int) -> int:
    status, made = await api.call("POST", f"/jobs/{job_id}/run", {})
    assert status == 202, made
    status, _ = await api.call("POST", f"/runs/{made['run_id']}/cancel", {})
    assert status == 202
    return int(made["run_id"])


async def test_each_change_is_told_and_a_reader_goes_on_from_any(ready: Api) -> None:
    job_id = await ready.job()
    async with reading(ready) as reader:
        first = await reader.next("ready")
        assert first.id == str(first.data["after"])
        made = [await run_and_cancel(ready, job_id) for _ in range(3)]
        told = await reader.runs(6)
    assert [(each["run_id"], each["before"], each["state"]) for each in told] == [
        step
        for run_id in made
        for step in ((run_id, None, "queued"), (run_id, "queued", "cancelled"))
    ]
    assert told[0] == {
        "seq": first.data["after"] + 1,
        "at": told[0]["at"],
        "run_id": made[0],
        "job_id": job_id,
        "executor_id": 1,
        "attempt": 0,
        "before": None,
        "state": "queued",
        "reason": None,
        "node_id": None,
        "origin": "api",
        "is_part": False,
    }
    for place, event in enumerate(told[:-1]):
        async with reading(ready, f"?after={event['seq']}") as reader:
            assert (await reader.next("ready")).data == {"after": event["seq"]}
            assert await reader.runs(5 - place) == told[place + 1 :]
    # A browser comes back with the address of its first request.
    last = str(told[4]["seq"])
    async with reading(ready, f"?after={told[0]['seq']}", Last_Event_ID=last) as reader:
        assert (await reader.next("ready")).id == last
        assert await reader.runs(1) == told[5:]


async def test_filters_and_the_number_of_what_is_passed_over(
    ready: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "BEAT_SECONDS", 0.01)
    job_id = await ready.job()
    async with reading(ready, f"?executor_id=1&job_id={job_id}&state=cancelled,failed") as reader:
        seq = (await reader.next("ready")).data["after"]
        await run_and_cancel(ready, job_id)
        (told,) = await reader.runs(1)
    assert (told["state"], told["seq"]) == ("cancelled", seq + 2)
    async with reading(ready, f"?after={seq}&state=failed") as reader:
        await reader.next("ready")
        while not (block := await reader.block()) or not block.id:
            assert block is not None
        assert (block.id, block.event, block.comments) == (str(seq + 2), "", [": beat"])


async def test_nobody_is_told_of_executors_that_they_may_not_see(ready: Api) -> None:
    job_id = await ready.job()
    other = await ready.executor("shop")
    grants = {other: Grant(Role.VIEWER)}
    theirs = Api(ready.admin, await ready.admin.token_for("olga", grants))
    for query in ("executor_id=1", f"job_id={job_id}", "job_id=987654"):
        assert (await theirs.call("GET", f"/events?{query}"))[0] == 404, query
    _, own = await ready.call(
        "POST", "/jobs", {"executor_id": other, "name": "own", "handler": "report"}
    )
    async with reading(theirs) as reader:
        await reader.next("ready")
        await run_and_cancel(ready, job_id)
        run_id = await run_and_cancel(ready, own["id"])
        assert [each["run_id"] for each in await reader.runs(2)] == [run_id, run_id]

        # What they may see now counts, not what they saw when they began.
        users = ready.admin.services.users
        user = next(each for each in (await users.page(ADMIN)).items if each.name == "olga")
        await users.set_grants(COMMAND_LINE, user.id, everywhere(Role.VIEWER))
        run_id = await run_and_cancel(ready, job_id)
        assert [each["run_id"] for each in await reader.runs(2)] == [run_id, run_id]
        await users.set_grants(COMMAND_LINE, user.id, {})
        while await reader.block() is not None:
            pass


@pytest.mark.parametrize("after", ["0", "7", "9007199254740991"])
async def test_a_number_that_is_not_kept_is_refused_for_good(ready: Api, after: str) -> None:
    async with reading(ready) as reader:
        await reader.next("ready")
        for headers, query in (({}, f"?after={after}"), ({"Last_Event_ID": after}, "")):
            status, answer = await ready.call("GET", f"/events{query}", **headers)
            assert (status, answer["error"]["code"]) == (410, "events.gone")
    status, answer = await ready.call("GET", "/events", Last_Event_ID="12a")
    assert (status, answer["error"]["problems"][0]["field"]) == (422, "Last-Event-ID")
    status, answer = await ready.call("GET", "/events?state=cancelled,odd")
    assert (status, answer["error"]["problems"][0]["field"]) == (422, "state")


async def test_a_slow_reader_that_falls_behind_is_told_so(
    ready: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it still has to read is read from the database, and is not kept for ever."""
    monkeypatch.setattr(run_events, "KEPT_IN_MEMORY", 1)
    job_id = await ready.job()
    async with reading(ready) as reader:
        seq = (await reader.next("ready")).data["after"]
        await run_and_cancel(ready, job_id)
        await run_and_cancel(ready, job_id)
        told = await reader.runs(4)
        async with reading(ready, f"?after={seq}") as late:
            await late.next("ready")
            assert await late.runs(4) == told
        feed = ready.admin.services.run_events
        ready.admin.clock.advance(90_000)
        removed = await ready.admin.services.store.run(remove_old_events, limit=3, kept_ms=1_000)
        assert removed == 3
        with pytest.raises(run_events.Gone):
            await feed.after(seq)
    assert (await ready.call("GET", f"/events?after={seq}"))[0] == 410


async def test_a_stream_waits_until_every_admin_writes(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "BEAT_SECONDS", 0.01)
    async with reading(api) as reader:
        waiting = ": waiting until every admin writes events"
        while not (block := await reader.block()) or block.comments != [waiting]:
            assert block is not None
            assert not block.event
        while not block.event:
            # Each time: the admin may want events only after the stream has said that it waits.
            api.admin.clock.advance(16)
            block = await reader.block()
            assert block is not None
        assert block.event == "ready"


async def test_streams_are_bounded_and_end_with_the_admin(
    ready: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "MOST_OF_USER", 1)
    async with reading(ready) as reader:
        await reader.next("ready")
        status, answer = await ready.call("GET", "/events")
        assert (status, answer["error"]["code"]) == (429, "events.too_many_streams")
        app = ready.admin.client.app
        assert app is not None
        await event_stream.end_streams(app)
        while await reader.block() is not None:
            pass
    head = await ready.request("HEAD", "/events")
    assert (head.status, head.content_type) == (200, "text/event-stream")
