"""The trace of a run: as it is stored, and the ids of the spans that admins record for it.

All ids are computed from the run. So an admin knows, without asking anybody, the id of a span that
another admin has recorded or will record, and needs to store nothing but which trace it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from msgspec.structs import replace

from tickwheel_admin.domain.runs.run import LIVE, Move, Run
from tickwheel_shared.trace_context import TraceContext, read_trace_context

NO_PARENT = "0" * 16  # span id of a trace that the run itself has begun
_NOT_SAMPLED = "00"


def stored(context: TraceContext) -> str:
    """As it is stored with a run: traceparent, and tracestate after a space if there is one.

    The parent is the span that asked for the run: of a caller, or of the run before it.
    """
    return f"{context.traceparent} {context.state}".rstrip()


def trace_of(run: Run) -> TraceContext | None:
    """The trace that is stored with a run, if any; its span may be NO_PARENT."""
    if run.trace is None:
        return None
    traceparent, _, state = run.trace.partition(" ")
    _, trace_id, span_id, flags = traceparent.split("-")
    return TraceContext(trace_id, span_id, flags, state)


def trace_id_of(run: Run) -> str | None:
    """The id of the trace that is stored with a run; None: it is part of none."""
    return None if run.trace is None else run.trace[3:35]


def own_trace(run: Run, *, sampled: bool = True) -> TraceContext:
    """The trace that a run begins that nobody's trace has asked for; the shards of a fire share it.

    Two installations may have runs with the same id, but hardly at the same millisecond.
    """
    trace_id = _hash(f"trace {_root(run)} {run.job_id} {run.scheduled_at}", 16)
    return TraceContext(trace_id, NO_PARENT, "01" if sampled else _NOT_SAMPLED)


def caller_trace(traceparent: str | None, tracestate: str = "") -> str | None:
    """What is stored for the headers of a request; None: they name no trace."""
    context = read_trace_context(traceparent, tracestate)
    return None if context is None else stored(context)


def trace_of_follower(run: Run) -> str | None:
    """What is stored with a run that another one causes: the same trace, below that run.

    A child is below the record of the attempt that caused it, a retry by hand below the whole run.
    """
    context = trace_of(run)
    if context is None:
        return None
    span_id = root_span(run) if is_whole(run) or run.attempt == 0 else record_span(run)
    return stored(replace(context, span_id=span_id))


def root_span(run: Run) -> str:
    """Span id of a run, from its creation to its first claim; shards have that of their fire."""
    return _span("run", _root(run), 0, run)


def claim_span(run: Run) -> str:
    """Span id of the claim of its current attempt."""
    return _span("claim", run.id, run.attempt, run)


def send_span(run: Run) -> str:
    """Span id of sending its current attempt, below which its node goes on."""
    return _span("send", run.id, run.attempt, run)


def record_span(run: Run) -> str:
    """Span id of recording how its current attempt ended."""
    return _span("record", run.id, run.attempt, run)


def ends_of_attempts(moves: Iterable[Move]) -> list[Move]:
    """Those moves that end an attempt of a run that is part of a trace."""
    return [
        move
        for move in moves
        if move.after.trace is not None
        and move.before.state in LIVE
        and move.after.state not in LIVE
        and move.after.node_id is not None  # neither a whole fire nor a workflow
    ]


def is_whole(run: Run) -> bool:
    """Whether other runs do its work, so that it has no node and no attempts."""
    return run.is_fire or run.is_workflow


def trace_for_node(run: Run, *, is_traced: bool, begins_traces: bool) -> TraceContext | None:
    """What the node is sent with an attempt; None: nothing.

    Args:
        is_traced: this admin records spans of the run.
        begins_traces: this admin decides which runs without a trace begin one.
    """
    context = trace_of(run)
    if is_traced and context is not None:
        return replace(context, span_id=send_span(run))
    if context is not None:  # passed on, as by any server that records nothing
        return replace(context, span_id=root_span(run)) if context.span_id == NO_PARENT else context
    if begins_traces:  # the decision was taken here, and the node keeps to it
        return replace(own_trace(run, sampled=False), span_id=send_span(run))
    return None


def _root(run: Run) -> int:
    return run.id if run.fire_id is None else run.fire_id


def _span(part: str, run_id: int, attempt: int, run: Run) -> str:
    return _hash(f"{part} {run_id} {attempt} {run.scheduled_at}", 8)


def _hash(text: str, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()
