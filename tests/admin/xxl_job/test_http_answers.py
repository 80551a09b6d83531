"""Answers over HTTP, however they are cut into pieces on their way."""

from __future__ import annotations

import random

import pytest

from tickwheel_admin.xxl_job.http.answers import MAX_HEAD_BYTES, AnswerReader, BadHttp

BODY = b'{"code":200}'
HEAD = b"HTTP/1.1 200 OK\r\n"
WAIT = b"HTTP/1.1 102 Wait\r\nContent-Length: 5\r\n\r\n"
LENGTH = b"Content-Length: 12\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        (HEAD + LENGTH + b"\r\n" + BODY, True),
        (HEAD + b"content-length:12 \r\nX: y\r\n\r\n" + BODY, True),
        (HEAD + LENGTH + b"Connection: X, Close\r\n\r\n" + BODY, False),
        (b"HTTP/1.0 200 OK\r\n" + LENGTH + b"\r\n" + BODY, False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + LENGTH + b"\r\n" + BODY, True),
        (
            WAIT * 3 + HEAD + LENGTH + b"\r\n" + BODY,
            True,
        ),
        (HEAD + CHUNKED + b"\r\nC;a=b\r\n" + BODY + b"\r\n0\r\n\r\n", True),
        (HEAD + CHUNKED + b"\r\n1\r\n{\r\n00b\r\n" + BODY[1:] + b"\r\n0\r\nA: b\r\n\r\n", True),
    ],
)
def test_an_answer_is_read_from_any_pieces(answer: bytes, is_kept: bool) -> None:
    dice = random.Random(1)
    for most in (1, 3, 40, len(answer)):
        reader = AnswerReader(1000)
        rest = answer
        while rest:
            assert not reader.is_whole
            size = dice.randint(1, most) if most < len(answer) else most
            reader.feed(rest[:size])
            rest = rest[size:]
        assert reader.is_whole
        assert (reader.status, reader.body, reader.is_truncated) == (200, BODY, False)
        assert reader.leaves_connection is is_kept
    reader = AnswerReader(1000)
    assert reader.feed(answer + b"H")
    assert not reader.leaves_connection, "there is more than was asked for"


@pytest.mark.parametrize("status", [b"204", b"304"])
def test_answers_without_a_body(status: bytes) -> None:
    reader = AnswerReader(1000)
    assert reader.feed(b"HTTP/1.1 " + status + b"\r\n\r\n")
    assert (reader.status, reader.body, reader.leaves_connection) == (int(status), b"", True)


def test_an_answer_may_end_with_its_connection() -> None:
    reader = AnswerReader(1000)
    assert not reader.feed(HEAD + b"\r\n" + BODY)
    reader.end()
    assert (reader.is_whole, reader.body, reader.leaves_connection) == (True, BODY, False)


@pytest.mark.parametrize("head", [LENGTH, CHUNKED + b"\r\n8\r\n" + BODY[:8] + b"\r\n4", b""])
def test_a_body_is_cut_at_its_bound(head: bytes) -> None:
    rest = BODY[8:] if head.startswith(CHUNKED) else BODY
    for most, is_truncated in ((11, True), (12, False)):
        reader = AnswerReader(most)
        reader.feed(HEAD + head + b"\r\n" + rest[:3])
        reader.feed(rest[3:])
        if head.startswith(CHUNKED) and not is_truncated:
            reader.feed(b"\r\n0\r\n\r\n")
        if not head:
            reader.end()
        assert (reader.body, reader.is_truncated) == (BODY[:most], is_truncated)
        assert reader.is_whole
        assert reader.leaves_connection is (bool(head) and not is_truncated)


@pytest.mark.parametrize(
    "answer",
    [
        b"220 smtp.example ESMTP\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        HEAD + b"no colon\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1_0\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 21 + b"\r\n\r\n",
        HEAD + LENGTH + b"Content-Length: 13\r\n\r\n",
        HEAD + LENGTH + CHUNKED + b"\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        HEAD + CHUNKED + b"\r\n-1\r\n",
        HEAD + CHUNKED + b"\r\n\r\n",
        HEAD + CHUNKED + b"\r\n1\r\nabc\r\n",
        HEAD + CHUNKED + b"\r\n" + b"1" * 2_000,
        HEAD + CHUNKED + b"\r\n0\r\n" + b"A: b\r\n" * MAX_HEAD_BYTES,
        HEAD + b"A: b\r\n" * MAX_HEAD_BYTES,
        b"x" * 2 * MAX_HEAD_BYTES,
    ],
)
def test_what_is_no_answer_is_refused(answer: bytes) -> None:
    reader = AnswerReader(1000)
    with pytest.raises(BadHttp):
        reader.feed(answer)


@pytest.mark.parametrize(
    "start",
    [
        HEAD + b"A: ",
        HEAD + CHUNKED + b"\r\n0\r\nA: ",
        HEAD + CHUNKED + b"\r\n0\r\nA",
        HEAD + CHUNKED + b"\r\n1;a=",
        HEAD + CHUNKED + b'\r\n3\r\nabc\r\n1;a="',
    ],
)
def test_one_endless_line_is_refused(start: bytes) -> None:
    reader = AnswerReader(1000)
    reader.feed(start)
    for _ in range(MAX_HEAD_BYTES // 1024 - 1):
        reader.feed(b"x" * 1024)
    with pytest.raises(BadHttp, match="too long"):
        reader.feed(b"x" * 1024)


def test_extensions_of_each_chunk_count_together() -> None:
    reader = AnswerReader(10_000)
    reader.feed(HEAD + CHUNKED + b"\r\n")
    for _ in range(32):
        reader.feed(b"1;" + b"a" * 1024 + b"\r\nx\r\n")
    with pytest.raises(BadHttp, match="too long"):
        reader.feed(b"1;" + b"a" * 1024 + b"\r\nx\r\n")


def test_a_body_in_the_smallest_chunks_is_read() -> None:
    reader = AnswerReader(MAX_HEAD_BYTES)
    reader.feed(HEAD + CHUNKED + b"\r\n")
    for _ in range(MAX_HEAD_BYTES // 64):
        reader.feed(b"01\r\nx\r\n" * 64)
    assert reader.feed(b"0\r\n\r\n")
    assert reader.body == b"x" * MAX_HEAD_BYTES


@pytest.mark.parametrize(
    "answer", [b"", HEAD, HEAD + LENGTH + b"\r\n{", HEAD + CHUNKED + b"\r\n1\r\n{\r\n0\r\n"]
)
def test_an_answer_that_is_cut_off_is_none(answer: bytes) -> None:
    reader = AnswerReader(1000)
    assert not reader.feed(answer)
    with pytest.raises(BadHttp):
        reader.end()


def test_noise_ends_in_an_error_or_an_answer_and_takes_no_memory() -> None:
    dice = random.Random(7)
    words = [HEAD, LENGTH, CHUNKED, b"\r\n", b"\r", b"\n", b"0", b"c", BODY, b"\0", b"X: y\r\n"]
    for _ in range(3_000):
        reader = AnswerReader(20)
        try:
            for _ in range(12):
                reader.feed(dice.choice(words))
                if reader.is_whole:
                    break
            else:
                reader.end()
        except BadHttp:
            continue
        assert reader.is_whole
        assert len(reader.body) <= 20
