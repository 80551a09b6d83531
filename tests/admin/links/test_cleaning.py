"""What nodes hand on is bounded and readable, and never keeps the end of a run from being told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tickwheel_admin.console.runs.log_text import log_text
from tickwheel_admin.links.cleaning import clean
from tickwheel_admin.services.runs.log_lines import LogEntry
from tickwheel_shared.protocol import (
    MAX_CHECKPOINT_BYTES,
    MAX_MESSAGE_CHARS,
    MAX_STATE_BYTES,
    Checkpoint,
    Level,
    LogChunk,
    Outcome,
    Result,
    WireLine,
)

KEY: dict[str, Any] = {"run": 7, "attempt": 2, "token": "t"}
NULL = b"null"
HUGE = b'{"a":"' + b"x" * MAX_STATE_BYTES + b'"}'
NUL = b'{"a":"\\u0000"}'  # as JSON writes it: text that every database keeps
HUGE_NUMBERS = (b'{"a":1e999}', b"[1E+400]", b"1" * 400, b"1" * 5_000, b"1" * 60_000)
DEEP = b'{"a":' * 101 + b"1" + b"}" * 101
UNREADABLE = (*HUGE_NUMBERS, b'{"a":"\xff"}', DEEP)


def ended(outcome: Outcome, **changes: Any) -> Result:
    raw = {name: msgspec.Raw(each) for name, each in changes.items() if isinstance(each, bytes)}
    return Result(**KEY, outcome=outcome, duration_ms=1, **(changes | raw))


def cleaned(result: Result) -> Result:
    left = clean(result)
    assert isinstance(left, Result)  # whatever came with it
    return left


def test_lines_of_a_clock_beyond_all_dates_get_the_nearest_one() -> None:
    """No page of the log could be shown for one of them."""
    ats = [-(2**53) + 1, -62_135_596_800_001, 0, 253_402_300_800_000, 2**53 - 1]
    lines = [WireLine(at, Level.INFO, "hello") for at in ats]
    left = clean(LogChunk(**KEY, first_seq=1, lines=lines))
    assert isinstance(left, LogChunk)
    entries = [
        LogEntry(seq=seq, at=line.at, level=line.level, text=line.text)
        for seq, line in enumerate(left.lines, 1)
    ]
    dates = [each.split("T")[0] for each in log_text(entries).splitlines()]
    assert dates == ["0001-01-01"] * 2 + ["1970-01-01"] + ["9999-12-31"] * 2


LINE_ENDS = ("\r", "\n", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")


@pytest.mark.parametrize("end", LINE_ENDS)
def test_a_line_with_line_ends_makes_no_line_of_its_own_in_the_file(end: str) -> None:
    forged = "1970-01-01T00:00:00.000+00:00 ERROR   forged"
    entries = [
        LogEntry(seq=seq, at=0, level=Level.INFO, text=text)
        for seq, text in enumerate((f"one{end}{forged}{end}", "\tplain 客 \x1b[31mred\x1b[0m"), 1)
    ]
    head = "1970-01-01T00:00:00.000+00:00 INFO   "
    assert log_text(entries).splitlines() == [
        f"{head} one",
        f"    {forged}",
        "    ",
        f"{head} \tplain 客 \x1b[31mred\x1b[0m",
    ]


def test_what_moves_a_terminals_cursor_is_written_out() -> None:
    entry = LogEntry(seq=1, at=0, level=Level.INFO, text="a\x1b[1A\x1b[2K\x08\x9b1Ab")
    assert log_text([entry]).endswith(" a\\x1b[1A\\x1b[2K\\x08\\x9b1Ab\n")


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.SKIPPED])
def test_a_state_that_can_be_kept_is_left_as_it_is(outcome: Outcome) -> None:
    for state in (NULL, b"{}", NUL, '{"客户":[1,2.5]}'.encode()):
        result = ended(outcome, state=state, result=b"1")
        assert cleaned(result) == result


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.SKIPPED])
@pytest.mark.parametrize(
    ("state", "why"),
    [
        (HUGE, "larger than 65536 bytes"),
        (b"[1]", "no JSON object"),
        (b'"text"', "no JSON object"),
        *((each, "no JSON that can be read") for each in UNREADABLE),
    ],
)
def test_a_state_that_cannot_be_kept_fails_the_run_and_says_why(
    outcome: Outcome, state: bytes, why: str
) -> None:
    left = cleaned(ended(outcome, state=state, result=b"1", message="fine"))
    assert left.outcome is Outcome.FAILED
    assert (bytes(left.state), bytes(left.result)) == (NULL, NULL)
    assert left.message.startswith(f"The state for the next run is {why}")


def test_what_came_with_a_state_that_cannot_be_kept_is_no_checkpoint_either() -> None:
    left = cleaned(ended(Outcome.SUCCEEDED, state=b"[1]", checkpoint=HUGE))
    assert left.outcome is Outcome.FAILED
    assert bytes(left.checkpoint) == NULL


def test_what_is_too_large_twice_is_said_once() -> None:
    left = cleaned(ended(Outcome.SUCCEEDED, state=HUGE, result=HUGE))
    assert (left.outcome, left.message) == (
        Outcome.FAILED,
        "The result is larger than 65536 bytes.",
    )


@pytest.mark.parametrize("result", [HUGE, *UNREADABLE])
def test_a_result_that_cannot_be_kept_fails_the_run_and_is_nobodys_parameter(result: bytes) -> None:
    left = cleaned(ended(Outcome.SUCCEEDED, result=result, state=b'{"a":1}', message="fine"))
    assert left.outcome is Outcome.FAILED
    assert (bytes(left.result), bytes(left.state)) == (NULL, NULL)
    why = "larger than 65536 bytes" if result == HUGE else "no JSON that can be read"
    assert left.message.startswith(f"The result is {why}")
    if result in HUGE_NUMBERS:
        assert "beyond ±1.8e308" in left.message


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.TIMED_OUT, Outcome.SKIPPED])
def test_an_attempt_that_ended_otherwise_did_so_whatever_it_returned(outcome: Outcome) -> None:
    for result in (HUGE, b"1e999"):
        left = cleaned(ended(outcome, result=result, message="why"))
        assert (left.outcome, bytes(left.result)) == (outcome, NULL)
        assert left.message.startswith("why (Its result was not kept: it is ")


@pytest.mark.parametrize("checkpoint", [b"7", b"[1,2]", NUL, b'"text"', NULL])
def test_a_checkpoint_that_can_be_kept_is_left_as_it_is(checkpoint: bytes) -> None:
    result = ended(Outcome.FAILED, checkpoint=checkpoint, message="why")
    assert cleaned(result) == result
    if checkpoint != NULL:
        message = Checkpoint(**KEY, seq=1, data=msgspec.Raw(checkpoint))
        assert clean(message) is message


@pytest.mark.parametrize("checkpoint", [HUGE, *UNREADABLE])
def test_a_checkpoint_that_cannot_be_kept_is_left_out_and_that_is_said(checkpoint: bytes) -> None:
    assert len(HUGE) > MAX_CHECKPOINT_BYTES
    for message in ("disk full", "", "x" * MAX_MESSAGE_CHARS):
        left = cleaned(ended(Outcome.TIMED_OUT, checkpoint=checkpoint, message=message))
        assert left.outcome is Outcome.TIMED_OUT
        assert bytes(left.checkpoint) == NULL
        assert "(Its checkpoint was not kept: it is " in left.message
        assert left.message.startswith(message[:100])
        assert len(left.message) <= MAX_MESSAGE_CHARS
    assert clean(Checkpoint(**KEY, seq=1, data=msgspec.Raw(checkpoint))) is None
