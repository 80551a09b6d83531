"""W3C Trace Context: what is understood of its headers, and what is ignored."""

from __future__ import annotations

import pytest

from tickwheel_shared.trace_context import TraceContext, read_trace_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("header", "flags"),
    [
        (PARENT, "01"),
        (f" {PARENT} ", "01"),
        (f"00-{TRACE}-{SPAN}-00", "00"),
        (f"00-{TRACE}-{SPAN}-03", "01"),  # "random" is no flag of this version
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", "01"),
    ],
)
def test_what_is_understood_is_sent_on_in_our_version(header: str, flags: str) -> None:
    context = read_trace_context(header, "a=1,b=2")
    assert context == TraceContext(TRACE, SPAN, flags, "a=1,b=2")
    assert context.traceparent == f"00-{TRACE}-{SPAN}-{flags}"
    assert context.is_sampled is (flags == "01")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "1",
        f"ff-{TRACE}-{SPAN}-01",
        f"{PARENT}-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        PARENT.upper(),
        f"{PARENT}\n{PARENT}",
        f"00-{TRACE}-{SPAN}-1",
    ],
)
def test_what_is_wrong_is_no_trace(header: str | None) -> None:
    assert read_trace_context(header) is None


@pytest.mark.parametrize("state", ["", "x" * 513, "a=\x07", "a=é"])
def test_a_tracestate_that_cannot_be_kept_is_left_out(state: str) -> None:
    assert read_trace_context(PARENT, state) == TraceContext(TRACE, SPAN, "01")
