"""Live pages of several admins: what one changes, pages at another fetch, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import add_job
from tests.admin.kit.several_admins import Several, next_event, several_admins
from tests.support.polling import wait_until_async
from tickwheel_admin.console.frame import streams
from tickwheel_admin.console.frame.streams import SESSION_CHECK_SECONDS, OpenStreams, Stream
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.events import events as topics
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.logins import SessionView
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database, DatabaseUnavailable
from tickwheel_admin.store.executors.admins import leave_admin
from tickwheel_admin.store.runs.logs import append_log_chunks
from tickwheel_shared.protocol import Level, LogChunk, WireLine


@pytest.fixture
async def several(tmp_path: Path) -> AsyncIterator[Several]:
    async with several_admins(tmp_path, 2) as world:
        yield world


def heard(events: Events) -> list[str]:
    """Topics from now on, as listeners of this process hear them."""
    found: list[str] = []

    def listener_of(topic: str) -> None:
        events.listen(topic, lambda: found.append(topic))

    for topic in (topics.RUNS, topics.QUEUED, topics.JOBS, topics.CALENDARS, topics.NODES,
                  topics.USERS, topics.ALARMS, topics.TRIGGERS, topics.CANCEL):  # fmt: skip
        listener_of(topic)
    return found


async def test_what_one_admin_changes_another_relays_and_only_that(several: Several) -> None:
    here, there = several.admins
    await here.services.relay.look()
    found = heard(here.services.events)

    there.services.events.publish(topics.QUEUED)
    there.services.events.publish(topics.TRIGGERS)
    await there.notifier.run_once()
    await here.services.relay.look()
    await here.services.relay.look()

    assert found == [topics.RUNS]  # once; the engine here is woken by nothing of it


async def test_what_is_relayed_is_not_told_back(several: Several) -> None:
    """Else two admins would tell each other the same change for ever."""
    here, there = several.admins
    await here.services.relay.look()
    there.services.events.publish(topics.JOBS)
    await there.notifier.run_once()
    before, found = here.services.events.counts(), heard(here.services.events)

    await here.services.relay.look()

    assert here.services.events.counts() == before
    assert found == [topics.JOBS]


async def test_an_admin_that_comes_or_goes_may_have_changed_anything(several: Several) -> None:
    here, _there = several.admins
    await here.services.relay.look()
    found = heard(here.services.events)

    await several.database.run(leave_admin, admin_id=2)
    await here.services.relay.look()

    assert found == list(topics.SHARED)


async def test_an_admin_alone_writes_nothing(several: Several) -> None:
    here, _there = several.admins
    await several.database.run(leave_admin, admin_id=2)
    here.services.events.publish(topics.JOBS)
    writes: list[str] = []

    async def no_writes(*_args: object, **_kwargs: object) -> None:
        writes.append("a write")

    here.notifier._store = type("Reading", (), {"read": several.database.read, "run": no_writes})()

    await here.notifier.run_once()

    assert writes == []


async def test_nobody_looks_at_the_database_while_no_page_is_open(several: Several) -> None:
    elsewhere = several.services.relay

    with elsewhere.watching():
        assert elsewhere._task is not None
        assert not elsewhere._task.done()

    await elsewhere.close()
    assert elsewhere._task.done()


@pytest.mark.parametrize(
    "trouble", [DatabaseUnavailable("away"), ValueError("what another version wrote")], ids=repr
)
async def test_pages_do_not_go_blind_by_one_look_that_failed(
    several: Several, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    monkeypatch.setattr("tickwheel_admin.services.events.relay.LOOK_SECONDS", 0.01)
    here, there = several.admins
    relayed = asyncio.Event()
    here.services.events.listen(topics.JOBS, relayed.set)
    elsewhere = here.services.relay
    look, failed = elsewhere.look, asyncio.Event()

    async def fail_once() -> None:
        monkeypatch.setattr(elsewhere, "look", look)
        failed.set()
        raise trouble

    with elsewhere.watching():
        await elsewhere.look()
        monkeypatch.setattr(elsewhere, "look", fail_once)
        async with asyncio.timeout(10):
            await failed.wait()
        there.services.events.publish(topics.JOBS)
        await there.notifier.run_once()
        async with asyncio.timeout(10):
            await relayed.wait()
    await elsewhere.close()


async def test_a_page_at_one_admin_hears_of_a_job_made_at_another(several: Several) -> None:
    await several.log_in("root", Role.ADMIN)
    async with several.browser.get(several.urls[0] + "/events") as stream:
        assert await next_event(stream) == "hello"
        there = several.admins[1]
        await there.services.executors.create(COMMAND_LINE, name="billing")
        there.services.events.publish(topics.JOBS)
        await there.notifier.run_once()

        assert await next_event(stream) in ("alarms", "jobs", "nodes")


async def test_what_changed_between_the_page_and_its_stream_is_told(several: Several) -> None:
    await several.log_in("root", Role.ADMIN)
    elsewhere, events = several.services.relay, several.services.events
    stream_url = several.urls[0] + "/events?age=2500"
    with elsewhere.watching():
        await elsewhere.look()
        elsewhere._watched_since -= 3_600  # as if it had been up for an hour
        events._since -= 3_600
        events._last.clear()
        events.publish(topics.NODES)

        async with several.browser.get(stream_url) as stream:
            assert [await next_event(stream) for _ in range(3)] == ["hello", "nodes", "stats"]
        # A page of this moment has it already.
        events._last[topics.NODES] -= 60
        async with several.browser.get(stream_url) as stream:
            assert await next_event(stream) == "hello"
            events.publish(topics.RUNS)
            assert await next_event(stream) == "runs"


async def test_what_changes_while_a_slow_browser_is_told_of_the_last_is_told_next(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    await several.log_in("root", Role.ADMIN)
    events, plain = several.services.events, Stream.send
    meanwhile = [topics.NODES]

    async def slow(stream: Stream, event: str, data: str = "", *, event_id: str = "") -> None:
        if event == "stats" and meanwhile:
            events.publish(meanwhile.pop())
        await plain(stream, event, data, event_id=event_id or None)

    monkeypatch.setattr(Stream, "send", slow)
    async with several.browser.get(several.urls[0] + "/events?age=x") as stream:
        told = [await next_event(stream) for _ in range(8)]

    assert told[6:] == ["nodes", "stats"]


@pytest.mark.parametrize("age", ["-1", "x", "9" * 40, "1e3"])
async def test_a_page_of_unknown_age_fetches_everything(several: Several, age: str) -> None:
    await several.log_in("root", Role.ADMIN)

    async with several.browser.get(several.urls[0] + f"/events?age={age}") as stream:
        told = [await next_event(stream) for _ in range(6)]

    assert told == ["hello", "alarms", "jobs", "nodes", "runs", "stats"]


async def test_a_stream_ends_when_another_admin_ends_the_session(several: Several) -> None:
    await several.log_in("root", Role.ADMIN)
    loop = asyncio.get_running_loop()
    async with several.browser.get(several.urls[0] + "/events?age=0") as stream:
        assert await next_event(stream) == "hello"
        begun = loop.time()
        there = several.admins[1]
        await there.services.users.reset_password(COMMAND_LINE, "root")
        await there.notifier.run_once()

        while await next_event(stream):
            pass
    assert loop.time() - begun < SESSION_CHECK_SECONDS


async def test_streams_of_one_session_are_bounded_and_asked_about_together(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_OF_SESSION", 3)
    monkeypatch.setattr(streams, "ROOM_SECONDS", 0)
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0)
    await several.log_in("root", Role.ADMIN)
    url = several.urls[0] + "/events?age=0"
    looks: list[int] = []
    plain = several.services.logins.sessions

    async def counted(asked: Sequence[tuple[str, str]]) -> list[SessionView | None]:
        looks.append(len(asked))
        return await plain(asked)

    monkeypatch.setattr(several.services.logins, "sessions", counted)
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(several.browser.get(url)) for _ in range(3)]
        for stream in opened:
            assert await next_event(stream) == "hello"
        with monkeypatch.context() as nobody_asked:
            # Whoever is refused comes back very often: nothing may be read to refuse them.
            nobody_asked.setattr(several.services.logins, "session", pytest.fail)
            async with several.browser.get(url) as refused:
                assert refused.status == 429
                assert int(refused.headers["Retry-After"]) > 0
        opened[0].close()

        async def opens_again() -> bool:
            async with several.browser.get(url) as stream:
                return stream.status == 200

        for _ in range(100):  # well before the server writes to the one that has gone
            if await opens_again():
                break
            await asyncio.sleep(0.05)

        several.services.events.publish(topics.USERS)
        await wait_until_async(lambda: bool(looks), what="a look at the sessions")
        assert looks[0] >= 2  # one read for all that are open
        await several.services.users.reset_password(COMMAND_LINE, "root")
        for stream in opened[1:]:
            while await next_event(stream):
                pass


async def test_streams_that_are_asked_for_at_once_are_bounded_before_anything_is_read(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_OF_SESSION", 3)
    monkeypatch.setattr(streams, "ROOM_SECONDS", 0.1)
    await several.log_in("root", Role.ADMIN)
    asked = 0
    plain = several.services.logins.session

    async def counted(*args: Any, **kwargs: Any) -> SessionView | None:
        nonlocal asked
        asked += 1
        return await plain(*args, **kwargs)

    monkeypatch.setattr(several.services.logins, "session", counted)
    url = several.urls[0] + "/events?age=0"
    answers = await asyncio.gather(*(several.browser.get(url) for _ in range(12)))
    statuses = sorted(answer.status for answer in answers)
    for answer in answers:
        answer.close()
    assert statuses == [200] * 3 + [429] * 9
    assert asked == 3


@pytest.mark.parametrize("kind", ["events", "log"])
async def test_a_page_is_live_though_the_one_before_it_is_left_only_just_now(
    several: Several, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Browsers ask for the next stream before they close the last."""
    monkeypatch.setattr(streams, "MAX_OF_SESSION", 3)
    monkeypatch.setattr(streams, "ROOM_SECONDS", 60)
    looked = asyncio.Event()
    plain = OpenStreams._forget_gone

    def noted(open_streams: OpenStreams, now: float) -> None:
        looked.set()
        plain(open_streams, now)

    monkeypatch.setattr(OpenStreams, "_forget_gone", noted)
    await several.log_in("root", Role.ADMIN)
    executor = await several.services.executors.create(COMMAND_LINE, name="billing")
    job_id = await several.services.jobs.create(
        COMMAND_LINE, executor.id, {"name": "a", "handler": "b"}
    )
    run_id = await several.services.jobs.run_now(COMMAND_LINE, job_id, request_key="1")
    path = "/events?age=0" if kind == "events" else f"/runs/{run_id}/log/stream"
    async with AsyncExitStack() as stack:
        url = several.urls[0] + path
        opened = [await stack.enter_async_context(several.browser.get(url)) for _ in range(3)]
        assert [stream.status for stream in opened] == [200, 200, 200]
        request = asyncio.create_task(stack.enter_async_context(several.browser.get(url)))
        await looked.wait()  # there is no room for it
        assert not request.done()

        opened[0].close()

        assert (await request).status == 200


async def test_a_log_goes_on_at_an_admin_that_does_not_have_the_node(several: Several) -> None:
    """The lines are stored by the other one, whose events are not heard here."""
    await several.log_in("root", Role.ADMIN)
    there = several.admins[1].services
    executor = await there.executors.create(COMMAND_LINE, name="billing")
    job_id = await there.jobs.create(COMMAND_LINE, executor.id, {"name": "a", "handler": "b"})
    run_id = await there.jobs.run_now(
        COMMAND_LINE, job_id, parameters=None, request_key=None, origin=Origin.MANUAL
    )

    def begin(conn: sa.Connection) -> None:
        running = {"state": "running", "attempt": 1}
        conn.execute(sa.update(tables.run).where(tables.run.c.id == run_id).values(running))

    def write(conn: sa.Connection, number: int) -> None:
        line = WireLine(at=number, level=Level.INFO, text=f"line {number}")
        chunk = LogChunk(run=run_id, attempt=1, token="t", first_seq=number, lines=[line])
        append_log_chunks(conn, [chunk])

    await there.store.run(begin)
    async with several.browser.get(f"{several.urls[0]}/runs/{run_id}/log/stream") as stream:
        for number in (1, 2):
            await there.store.run(write, number)
            assert await next_event(stream) == "lines"


async def test_an_idle_engine_has_nothing_to_tell(database: Database, admin: Admin) -> None:
    """Whatever its loops look at by themselves: else every open page would fetch all its parts."""
    await admin.engine.membership.enter()
    await add_job(database)
    await admin.add_node(1)
    before = admin.events.counts()

    for loop in admin.engine.loops:
        await loop.run_once()

    assert admin.events.counts() == before


def test_counts_rise_with_what_is_published_here_alone() -> None:
    clock = Clock()
    events = Events(clock.monotonic)
    events.publish(topics.RUNS)
    events.publish(topics.QUEUED)
    events.publish(topics.log_topic(7))
    events.relay(topics.NODES)

    assert events.counts() == {
        "runs": 2, "jobs": 0, "nodes": 0, "people": 0, "alarms": 0,
    }  # fmt: skip


def test_topics_of_runs_are_not_kept_for_as_long_as_an_admin_lives() -> None:
    events = Events()
    before = held_by(events)

    for run_id in range(1_000):
        events.publish(topics.log_topic(run_id))
        events.listen(topics.log_topic(run_id), lambda: None)()

    assert held_by(events) == before


def held_by(events: Events) -> int:
    """How many things it keeps."""
    return sum(len(kept) for kept in vars(events).values() if hasattr(kept, "__len__"))


def test_what_changed_lately_is_known_since_the_beginning_only() -> None:
    clock = Clock()
    events = Events(clock.monotonic)
    clock.advance(100)
    events.publish(topics.RUNS)
    clock.advance(10)
    events.relay(topics.JOBS)

    assert events.changed_within(5) == {topics.JOBS}
    assert events.changed_within(10) == {topics.JOBS, topics.RUNS}
    assert topics.NODES in events.changed_within(120)  # before that: anything
