"""The wire: each message there and back, frames, and everything that must be refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from tickwheel_shared import protocol
from tickwheel_shared.protocol import (
    MAX_FRAME_BYTES,
    MAX_LINE_CHARS,
    SOFT_FRAME_BYTES,
    FrameError,
    Heartbeat,
    Level,
    LogChunk,
    Message,
    Result,
    WireLine,
    agree_version,
    decode_from_admin,
    decode_from_node,
    encode_frames,
    for_version,
)

FIXTURES = Path(__file__).parent / "fixtures"
ENDED = b'"type":"result","run":1,"attempt":1,"token":"t","outcome":"failed","duration_ms":1'
SIDES = {"node": decode_from_node, "admin": decode_from_admin}


def load(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_text())


EXAMPLES = [
    pytest.param(side, entry, id=f"{side}-{entry['type']}")
    for side in SIDES
    for entry in load(f"from_{side}")
]
BROKEN = [
    pytest.param(side, row["frame"], row["names"], id=f"{side}-{row['name']}")
    for side, rows in load("broken").items()
    for row in rows
]


@pytest.mark.parametrize(("side", "entry"), EXAMPLES)
def test_a_message_comes_back_as_it_went(side: str, entry: dict[str, Any]) -> None:
    (message,) = SIDES[side](json.dumps([entry]))
    (frame,) = encode_frames([message])
    assert json.loads(frame) == [entry]
    holds_raw = isinstance(message, protocol.RunRequest | Result | protocol.Hello)
    assert SIDES[side](frame) == [message] or holds_raw


@pytest.mark.parametrize("side", SIDES)
def test_every_message_has_an_example(side: str) -> None:
    union = protocol.FromNode if side == "node" else protocol.FromAdmin
    tags = {kind.__struct_config__.tag for kind in get_args(union)}
    assert {entry["type"] for entry in load(f"from_{side}")} == tags


def test_every_word_of_a_list_has_an_example() -> None:
    node, admin = load("from_node"), load("from_admin")
    assert {entry["outcome"] for entry in node if "outcome" in entry} == set(protocol.Outcome)
    reasons = {entry["reason"] for entry in admin if entry["type"] == "cancel"}
    assert reasons == set(protocol.CancelReason)


def test_what_a_spool_of_an_older_sdk_holds_is_read() -> None:
    (message,) = decode_from_node(b"[{" + ENDED + b"}]")
    assert isinstance(message, Result)
    assert (message.retry_after_ms, message.final) == (None, False)


def test_a_whole_fixture_is_one_frame() -> None:
    messages = decode_from_node((FIXTURES / "from_node.json").read_bytes())
    assert len(messages) == len(load("from_node"))
    assert len(list(encode_frames(messages))) == 1


@pytest.mark.parametrize(("side", "frame", "names"), BROKEN)
def test_what_breaks_the_protocol_is_refused_naming_the_place(
    side: str, frame: Any, names: str
) -> None:
    with pytest.raises(FrameError, match=names):
        SIDES[side](json.dumps(frame))


@pytest.mark.parametrize("decode", SIDES.values())
@pytest.mark.parametrize(
    "frame", [b"", b"[", b"\xff\xfe[]", b"null", b"[1]", b"[null]", b'["hello"]', b"[" * 100_000]
)
def test_what_is_no_frame_is_refused(decode: Any, frame: bytes) -> None:
    with pytest.raises(FrameError):
        decode(frame)


@pytest.mark.parametrize("decode", SIDES.values())
def test_an_oversized_frame_is_refused_unread(decode: Any) -> None:
    with pytest.raises(FrameError, match="4194305 bytes"):
        decode(b"[" + b" " * (MAX_FRAME_BYTES - 1) + b"]")
    assert decode(b"[" + b" " * (MAX_FRAME_BYTES - 2) + b"]") == []


def test_text_and_bytes_are_read_alike() -> None:
    frame = '[{"type":"heartbeat","seq":1,"in_use":0}]'
    assert decode_from_node(frame) == decode_from_node(frame.encode())


@pytest.mark.parametrize(
    ("field", "value", "fits"),
    [
        ("run", 2**53 - 1, True),
        ("run", 2**53, False),
        ("run", 0, False),
        ("run", -1, False),
        ("run", 10**40, False),
        ("attempt", 2**31 - 1, True),
        ("attempt", 2**31, False),
        ("token", "t" * 64, True),
        ("token", "t" * 65, False),
    ],
)
def test_numbers_and_tokens_are_bounded(field: str, value: object, fits: bool) -> None:
    message = {"type": "accepted", "run": 1, "attempt": 1, "token": "t"} | {field: value}
    frame = json.dumps([message])
    if fits:
        assert getattr(decode_from_node(frame)[0], field) == value
    else:
        with pytest.raises(FrameError, match=field):
            decode_from_node(frame)


def chunk(characters: int, lines: int = 1) -> LogChunk:
    text = "x" * characters
    return LogChunk(
        run=1, attempt=1, token="t", first_seq=1, lines=[WireLine(1, Level.INFO, text)] * lines
    )


def test_messages_keep_their_order_over_frames_of_bounded_size() -> None:
    messages: list[Message] = []
    for seq in range(200):
        messages += [Heartbeat(seq=seq, in_use=0), chunk(16_000)]
    frames = list(encode_frames(messages))
    assert len(frames) > 5
    assert all(len(frame) <= SOFT_FRAME_BYTES + 2 for frame in frames)
    assert [message for frame in frames for message in decode_from_node(frame)] == messages


def test_no_messages_are_no_frame_and_many_small_ones_are_one() -> None:
    assert list(encode_frames([])) == []
    assert len(list(encode_frames([Heartbeat(seq=n, in_use=0) for n in range(5000)]))) == 1


def test_a_message_above_the_soft_limit_travels_alone() -> None:
    frames = list(encode_frames([Heartbeat(seq=1, in_use=0), chunk(MAX_LINE_CHARS, 100)]))
    assert [len(decode_from_node(frame)) for frame in frames] == [1, 1]


def test_raw_json_passes_through_untouched() -> None:
    text = b'{"a": [1, 2.50, "\\u0000"], "b": null}'
    frame = (
        b'[{"type":"result","run":1,"attempt":1,"token":"t","outcome":"succeeded","duration_ms":1,'
    )
    (message,) = decode_from_node(frame + b'"result":' + text + b"}]")
    assert isinstance(message, Result)
    assert bytes(message.result) == text
    assert text in next(encode_frames([message]))


def test_messages_cannot_be_changed() -> None:
    beat = Heartbeat(seq=1, in_use=0)
    with pytest.raises(AttributeError):
        beat.seq = 2  # type: ignore[misc]


def test_the_newest_common_version_is_agreed_on() -> None:
    assert agree_version([1]) == 1
    assert agree_version([3, 2, 1]) == 2
    assert agree_version([3]) is None
    assert agree_version([]) is None


def test_an_older_peer_is_sent_no_newer_field() -> None:
    newer = {"due_at", "interval_start", "script", "secrets", "traceparent", "tracestate"}
    found = [entry for entry in load("from_admin") if newer & entry.keys()]
    assert newer <= {key for entry in found for key in entry}
    for request, entry in zip(decode_from_admin(json.dumps(found)), found, strict=True):
        assert for_version(request, 2) is request
        (frame,) = encode_frames([for_version(request, 1)])
        assert json.loads(frame) == [{key: v for key, v in entry.items() if key not in newer}]


def test_a_result_needs_no_more_than_how_it_ended() -> None:
    frame = (
        b'[{"type":"result","run":1,"attempt":1,"token":"t","outcome":"failed","duration_ms":1}]'
    )
    (message,) = decode_from_node(frame)
    assert isinstance(message, Result)
    assert msgspec.json.decode(message.result) is None
