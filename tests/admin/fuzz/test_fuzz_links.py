"""Hostile values in every field of every message that a node may send.

The admin takes a frame, or closes the socket with a reason; it never fails, and the other nodes
go on as before. Messages and fields are read from the protocol itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.admin.fuzz.values import JSONS
from tests.admin.kit.engine import Admin
from tests.admin.links.test_links import HELLO, Node
from tests.support.polling import wait_until_async
from tickwheel_admin.links.hub import LinkHub
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import FromNode, HeartbeatAck, Progress, Welcome, decode_from_node

SEEDS = int(os.environ.get("TICKWHEEL_FUZZ_FRAME_SEEDS", "1"))  # 40 of them make every attempt
ALL_SEEDS = 40
HERE = "\x01HERE\x01"
ERRORS = ("error", "critical", "exception")


def good_message(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """A message with every field given, each within its bounds."""
    if kind.__struct_config__.tag == "hello":
        made = dict(HELLO)
    else:
        made = {"type": kind.__struct_config__.tag}
    for field in msgspec.structs.fields(kind):
        made.setdefault(field.encode_name, _good(msgspec.inspect.type_info(field.type)))
    return made


def _good(wanted: msgspec.inspect.Type) -> Any:
    match wanted:
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return 1
        case msgspec.inspect.StrType():
            return "x"
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.EnumType():
            return next(iter(wanted.cls)).value
        case msgspec.inspect.ListType():
            return [_good(wanted.item_type)]
        case msgspec.inspect.DictType():
            return {}
        case msgspec.inspect.UnionType():
            return _good(wanted.types[0])
        case msgspec.inspect.StructType():
            values = [_good(each.type) for each in wanted.fields]
            names = [each.encode_name for each in wanted.fields]
            return values if wanted.array_like else dict(zip(names, values, strict=True))
        case msgspec.inspect.RawType():
            return {}
    return None


def paths_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a message."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, each in inner:
        yield from paths_in(each, (*path, key))


def placed(value: Any, path: tuple[str | int, ...], put: Any) -> Any:
    if not path:
        return put
    key, *rest = path
    if isinstance(value, list):
        return [
            placed(each, tuple(rest), put) if i == key else each for i, each in enumerate(value)
        ]
    return {**value, key: placed(value[key], tuple(rest), put)}  # type: ignore[index]


def frames() -> list[bytes]:
    """Each value in each place of each message."""
    made = []
    for kind in get_args(FromNode):
        good = good_message(kind)
        for path in paths_in(good):
            text = json.dumps([placed(good, path, HERE)]).encode()
            before, _, after = text.partition(json.dumps(HERE).encode())
            made += [before + value + after for value in JSONS]
        extra = json.dumps([{**good, "no_such_field": 1}]).encode()
        made += [extra, extra[:-1], json.dumps(good).encode(), json.dumps([[good]]).encode()]
    return made


def test_the_messages_that_are_changed_are_right_without_a_change() -> None:
    for kind in get_args(FromNode):
        good = good_message(kind)
        assert decode_from_node(json.dumps([good]))
        assert len(list(paths_in(good))) >= len(msgspec.structs.fields(kind))


async def ask(
    admin: Admin, hub: LinkHub, frame: bytes, *, is_first: bool
) -> tuple[int, str] | None:
    """How the socket was closed after a frame; None: it was not."""
    node = Node(admin, hub)
    try:
        if not is_first:
            node.pipe.say(HELLO | {"node_key": "f" * 32}, {"type": "held", "runs": []})
            await node.heard(Welcome)
        node.pipe.to_admin.put_nowait(frame)
        node.pipe.to_admin.put_nowait(None)  # then the node leaves
        async with asyncio.timeout(20):
            await node.serving  # raises what the session raised
        await admin.engine.recorder.run_once()
        return node.pipe.closed
    finally:
        node.session.close(1001, "the test is over")
        async with asyncio.timeout(20):
            await asyncio.gather(node.serving, return_exceptions=True)


async def what_fails(admin: Admin, hub: LinkHub, sent: Sequence[bytes]) -> list[str]:
    """Frames that end in an exception, in an error in the log, or in a close without a reason."""
    wrong = []
    with capture_logs() as logged:
        for frame in sent:
            # As a first message, hello is what reaches furthest.
            is_first = b'"hello"' in frame
            logged.clear()
            try:
                closed: object = await ask(admin, hub, frame, is_first=is_first)
                fine = closed is not None and (closed[0] in (1000, 1001) or closed[1])  # type: ignore[index]
            except Exception as error:  # noqa: BLE001 - whatever the session raised is what is looked for
                closed, fine = error, False
            bad = [event for event in logged if event["log_level"] in ERRORS]
            if bad or not fine:
                wrong.append(f"{frame[:300]!r} ({len(frame)} bytes): {closed!r} {bad}")
    return wrong


@pytest.mark.slow
async def test_no_value_in_any_message_makes_a_session_fail(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    hub = LinkHub()
    admin = Admin(database, hub=hub)
    await admin.engine.membership.enter()
    peaceful = Node(admin, hub)
    peaceful.pipe.say(HELLO | {"node_key": "e" * 32}, {"type": "held", "runs": []})
    await peaceful.heard(Welcome)
    await admin.engine.recorder.run_once()
    every = frames()
    random.Random(0).shuffle(every)
    chosen = [each for seed in range(SEEDS) for each in every[seed::ALL_SEEDS]]
    wrong = await what_fails(admin, hub, chosen)
    if wrong:
        pytest.fail("\n".join(wrong[:20]), pytrace=False)
    assert caplog.records == []

    assert not peaceful.serving.done()
    peaceful.pipe.say({"type": "heartbeat", "seq": 7, "in_use": 0})
    await wait_until_async(lambda: peaceful.session.heartbeat == 7)
    await admin.engine.leases.run_once()
    assert await peaceful.heard(HeartbeatAck)
    peaceful.session.close(1001, "the test is over")
    await peaceful.serving


async def test_a_message_that_makes_a_session_fail_is_found(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(message: Any) -> Any:
        if isinstance(message, Progress):
            raise KeyError("Progress")
        return message

    monkeypatch.setattr("tickwheel_admin.links.session.clean", fail)
    hub = LinkHub()
    admin = Admin(database, hub=hub)
    await admin.engine.membership.enter()
    good = json.dumps([good_message(Progress)]).encode()
    [found] = await what_fails(admin, hub, [good, b"not json"])
    assert "KeyError('Progress')" in found
    assert '"type": "progress"' in found
