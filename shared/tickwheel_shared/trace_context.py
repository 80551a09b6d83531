"""W3C Trace Context (level 1): which trace a run belongs to, and which span asked for it.

https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import re

import msgspec

MAX_TRACESTATE_CHARS = 512  # a longer one is left out, as the specification allows

# Of versions that are not known yet, whatever follows the flags is ignored.
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACESTATE = re.compile(r"[\x20-\x7e]+")
_SAMPLED = 1


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A place in a trace: what begins here belongs to this span."""

    trace_id: str  # 32 hex digits
    span_id: str  # 16 hex digits
    flags: str = "01"  # two hex digits
    state: str = ""  # of vendors; MAX_TRACESTATE_CHARS at most

    @property
    def traceparent(self) -> str:
        """The header of this name."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    @property
    def is_sampled(self) -> bool:
        """Whether whoever began the trace records it."""
        return bool(int(self.flags, 16) & _SAMPLED)


def read_trace_context(traceparent: str | None, tracestate: str = "") -> TraceContext | None:
    """The context of these headers; None: there is none, or it is not valid.

    As the specification asks, a wrong header is no error: the trace begins anew.
    """
    found = _TRACEPARENT.fullmatch(traceparent.strip()) if traceparent else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    state = tracestate.strip()
    if len(state) > MAX_TRACESTATE_CHARS or not _TRACESTATE.fullmatch(state):
        state = ""
    # Flags that later versions define mean nothing to the version that we send.
    return TraceContext(trace_id, span_id, f"{int(flags, 16) & _SAMPLED:02x}", state)
