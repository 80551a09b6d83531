"""Links: opening, heartbeats, reconnecting, learning of admins, and giving up a lease."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any, cast

import pytest

from tests.executor_sdk.scripted_admin import (
    URL,
    MemorySpool,
    ScriptedAdmin,
    connect,
    make_node,
    request,
)
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Run
from tickwheel_executor.link.links import AdminLinks
from tickwheel_executor.settings import normal_url
from tickwheel_shared.protocol import (
    Accepted,
    Admins,
    Draining,
    Heartbeat,
    Held,
    Hello,
    Rejected,
    Result,
)


async def work(run: Run) -> None:
    return None


async def wait(run: Run) -> None:
    await asyncio.sleep(3600)


@virtual_time
async def test_the_opening_is_hello_results_held() -> None:
    admin, spool = ScriptedAdmin(), MemorySpool()
    spool.left_over = [
        Result(run=3, attempt=1, token="x", outcome="succeeded", duration_ms=5)  # type: ignore[arg-type]
    ]
    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    hello, result, held, beat = session.received[:4]

    assert isinstance(hello, Hello)
    assert (hello.executor, hello.name, hello.slots) == ("billing", "node-1", 4)
    assert hello.weight == 3
    assert (hello.versions, hello.handlers) == ([2, 1], ["work"])
    assert len(hello.node_key) == 32
    assert hello.node_key == node.key
    assert hello.sdk.startswith("python/")
    assert isinstance(result, Result)
    assert result.run == 3
    assert held == Held(runs=[])
    assert beat == Heartbeat(seq=1, in_use=0)
    await asyncio.sleep(1)
    assert spool.disk == {}
    await node.drain(1)


@virtual_time
async def test_hello_names_the_handlers_that_nothing_can_stop() -> None:
    class Service:
        async def __call__(self, run: Run) -> None: ...

    def plain() -> None: ...

    admin = ScriptedAdmin()
    node = make_node(admin, handlers={"work": work, "plain": plain, "service": Service()})
    await node.start()
    hello = (await admin.session()).all(Hello)[0]
    assert (hello.handlers, hello.unstoppable) == (["work", "plain", "service"], ["plain"])
    await node.drain(1)


@virtual_time
async def test_heartbeats_follow_the_welcome() -> None:
    admin, node, session = await connect({"wait": wait})
    session.send(request(handler="wait"))
    await asyncio.sleep(30.5)
    beats = session.all(Heartbeat)
    assert [beat.seq for beat in beats] == list(range(1, 12))
    assert beats[-1].in_use == 1
    assert len(admin.sessions) == 1
    await node.drain(1)


@virtual_time
async def test_a_node_keeps_trying_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    admin = ScriptedAdmin()
    admin.up = False
    caplog.set_level(logging.WARNING)
    node = make_node(admin, handlers={"work": work})
    await node.start()
    await asyncio.sleep(300)
    gaps = [b - a for a, b in zip(admin.connected_at, admin.connected_at[1:], strict=False)]

    assert 0.5 <= gaps[0] <= 1
    assert all(0.5 <= gap <= 15 for gap in gaps)
    assert min(gaps[5:]) >= 7.5  # backed off
    assert len(set(gaps)) == len(gaps)  # jittered
    warnings = [r for r in caplog.records if "trying again" in r.message]
    assert len(warnings) == 5  # at once, then once a minute
    admin.up = True
    session = await admin.session()
    session.send(request())
    await session.expect(Result)
    session.close()
    await admin.session(1)
    assert await node.drain(1)


@virtual_time
async def test_a_refused_token_is_said_loudly_and_not_tried_for_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    admin = ScriptedAdmin()
    admin.unauthorized = True
    node = make_node(admin, handlers={"work": work})
    await node.start()
    await asyncio.sleep(130)
    assert len(admin.connected_at) == 3
    errors = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert len(errors) == 3
    assert "TICKWHEEL_TOKEN" in errors[0].message
    assert URL in errors[0].message
    assert "ttttt" not in caplog.text
    await node.drain(0)


@virtual_time
async def test_a_fatal_rejection_waits_a_minute_another_one_backs_off() -> None:
    admin = ScriptedAdmin()
    admin.welcomes = False
    node = make_node(admin, handlers={"work": work})
    await node.start()
    await asyncio.sleep(1)
    admin.sessions[0].send(Rejected(code="version", message="upgrade the SDK", fatal=True))
    await asyncio.sleep(55)
    assert len(admin.connected_at) == 1
    await asyncio.sleep(6)
    assert len(admin.connected_at) == 2
    admin.sessions[1].send(Rejected(code="busy", message="later", fatal=False))
    await asyncio.sleep(5)
    assert len(admin.connected_at) == 3
    await node.drain(0)


@virtual_time
async def test_a_silent_admin_is_left_after_ten_seconds() -> None:
    admin = ScriptedAdmin()
    admin.welcomes = False
    node = make_node(admin, handlers={"work": work})
    await node.start()
    await asyncio.sleep(12)
    assert len(admin.sessions) == 2
    assert admin.sessions[0].channel.closed is not None
    await node.drain(0)


@pytest.mark.parametrize(
    ("frame", "place"),
    [
        (b'[{"type":"bogus"}]', "bogus"),
        (b'[{"type":"drain","on":true,"extra":1}]', "extra"),
        (b"not json", "malformed"),
        (b'[{"type":"query","run":1}]', "attempt"),
    ],
)
def test_a_frame_that_breaks_the_protocol_closes_with_1008(frame: bytes, place: str) -> None:
    @virtual_time
    async def run() -> None:
        admin, node, session = await connect({"work": work})
        session.send_raw(frame)
        await admin.session(1)
        code, reason = session.channel.closed or (0, "")
        assert code == 1008
        assert place in reason
        await node.drain(0)

    run()


@virtual_time
async def test_a_run_survives_a_reconnect_and_answers_on_the_new_socket() -> None:
    gate = asyncio.Event()

    async def gated(run: Run) -> str:
        await gate.wait()
        return "kept"

    admin, node, session = await connect({"gated": gated})
    session.send(request(handler="gated"))
    await session.expect(Accepted)
    session.close()
    gate.set()  # ends while no admin is there
    second = await admin.session(1)
    assert (await second.expect(Result)).run == 1
    assert await node.drain(1)


@virtual_time
async def test_the_admins_of_a_welcome_are_added_and_gone_ones_given_up() -> None:
    first, second = ScriptedAdmin(), ScriptedAdmin("admin-2", url="http://admin-2:8500")
    first.admins = [first.url, second.url + "/", "ftp://nonsense"]
    node = make_node(first, second, handlers={"work": work}, configured=[URL])
    await node.start()
    session = await first.session()
    other = await second.session()
    assert other.all(Hello)[0].node_key == session.all(Hello)[0].node_key
    first.admins = [first.url]
    second.up = False
    other.close()
    session.close()  # its next welcome names only itself
    await asyncio.sleep(400)
    tried = len(second.connected_at)
    assert tried > 5
    await asyncio.sleep(600)
    assert len(second.connected_at) == tried
    await node.drain(0)


@virtual_time
async def test_an_admin_that_starts_later_is_connected_to_as_well() -> None:
    first, later = ScriptedAdmin(), ScriptedAdmin("admin-2", url="http://admin-2:8500")
    node = make_node(first, later, handlers={"work": work}, configured=[URL])
    await node.start()
    session = await first.session()
    assert later.connected_at == []
    session.send(Admins(urls=[first.url, later.url]))
    await later.session()

    session.send(Admins(urls=[later.url]))  # taken for dead, perhaps
    await asyncio.sleep(600)
    assert (len(first.sessions), len(later.sessions)) == (1, 1)  # and never closed
    await node.drain(0)


def test_a_link_may_come_while_a_thread_asks_whether_one_is_open() -> None:
    unused: Any = None
    links = AdminLinks([], unused, token="t", connect=unused, random=random.Random(1))

    class Learning:
        @property
        def is_open(self) -> bool:
            links._links["http://b"] = cast("Any", self)
            return False

    links._links["http://a"] = cast("Any", Learning())
    assert not links.any_open


@virtual_time
async def test_an_https_node_does_not_follow_a_welcome_to_http() -> None:
    first = ScriptedAdmin(url="https://admin-1")
    second = ScriptedAdmin("admin-2", url="http://admin-2:8500")
    first.admins = [first.url, second.url]
    node = make_node(first, second, handlers={"work": work}, configured=[first.url])
    await node.start()
    await first.session()
    await asyncio.sleep(60)
    assert second.connected_at == []
    await node.drain(0)


@virtual_time
async def test_two_urls_of_one_admin_end_as_one_socket() -> None:
    first, alias = ScriptedAdmin(), ScriptedAdmin("admin-1", url="http://10.0.0.1:8500")
    first.same_as = alias.same_as = [first, alias]  # a newer socket of a node ends the older one
    node = make_node(first, alias, handlers={"work": work})
    await node.start()
    await asyncio.sleep(300)
    sessions = [*first.sessions, *alias.sessions]
    open_ones = [session for session in sessions if session.channel.closed is None]
    assert len(open_ones) == 1
    assert len(sessions) == 2  # no endless pushing out
    open_ones[0].close()
    open_ones[0].admin.up = False
    await asyncio.sleep(30)  # then the other URL is as good
    assert len([s for s in first.sessions + alias.sessions if s.channel.closed is None]) == 1
    await node.drain(0)


@virtual_time
async def test_two_admins_of_one_name_are_both_kept() -> None:
    first, second = ScriptedAdmin("host"), ScriptedAdmin("host", url="http://host:8501")
    node = make_node(first, second, handlers={"work": work})
    await node.start()
    session = await first.session()
    other = await second.session()
    await asyncio.sleep(60)
    session.close()  # a restart
    await first.session(1)
    await asyncio.sleep(60)
    assert other.channel.closed is None
    assert first.sessions[1].channel.closed is None
    assert len(first.sessions + second.sessions) == 3
    await node.drain(0)


@virtual_time
async def test_a_node_whose_lease_is_over_breaks_off_every_socket() -> None:
    admins = [ScriptedAdmin(), ScriptedAdmin("admin-2", url="http://admin-2:8500")]
    node = make_node(*admins, handlers={"work": work})
    await node.start()
    sessions = [await admin.session() for admin in admins]
    admins[0].answers_heartbeats = False
    await asyncio.sleep(60)
    assert all(session.channel.closed is None for session in sessions)  # one ack is enough
    admins[1].answers_heartbeats = False
    await asyncio.sleep(12)
    assert all(session.channel.closed is None for session in sessions)
    await asyncio.sleep(6)
    assert [session.channel.closed for session in sessions] == [(1006, "aborted")] * 2
    for admin in admins:
        admin.answers_heartbeats = True
        await admin.session(1)
    await node.drain(0)


@virtual_time
async def test_a_result_goes_where_its_run_came_from_else_to_another() -> None:
    admins = [ScriptedAdmin(), ScriptedAdmin("admin-2", url="http://admin-2:8500")]
    node = make_node(*admins, handlers={"work": work})
    await node.start()
    first, second = [await admin.session() for admin in admins]
    second.send(request(1))
    await second.expect(Result)
    assert first.all(Result) == []
    admins[1].gives_receipts = False  # it hears the result, and says nothing
    second.send(request(2))
    await second.expect(Result)
    assert (await first.expect(Result)).run == 2  # after 5 s, to another
    assert await node.drain(1)


@virtual_time
async def test_a_draining_node_says_so_on_a_new_socket_too() -> None:
    admin, node, session = await connect({"wait": wait})
    session.send(request(handler="wait"))
    await session.expect(Accepted)
    drained = asyncio.create_task(node.drain(30))
    await session.expect(Draining)
    session.close()
    second = await admin.session(1)
    await second.expect(Draining)
    assert await drained


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://LOCALHOST:8500/", "http://localhost:8500"),
        ("https://a.example:443/tickwheel/", "https://a.example/tickwheel"),
        ("http://[::1]:8500", "http://[::1]:8500"),
    ],
)
def test_urls_have_one_spelling(text: str, url: str) -> None:
    assert normal_url(text) == url


@pytest.mark.parametrize(
    "text",
    ["", "localhost:8500", "ws://x", "http://", "http://u:p@x", "http://x/?a=1", "http://x:99999"],
)
def test_what_is_no_base_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"it |[Pp]ort"):
        normal_url(text)


@virtual_time
async def test_a_second_welcome_is_a_broken_protocol() -> None:
    admin, node, session = await connect({"work": work})
    session.send(session._welcome(2))
    await admin.session(1)
    assert (session.channel.closed or (0, ""))[0] == 1008
    await node.drain(0)
