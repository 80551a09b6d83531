"""Which claimed runs are part of a trace, and what their nodes are told of it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tickwheel_admin.domain.runs.run import Move, Run, RunState
from tickwheel_admin.domain.runs.trace import is_whole, own_trace, stored, trace_for_node, trace_of
from tickwheel_admin.engine.ports import RunTracer
from tickwheel_shared.trace_context import TraceContext


class ClaimTraces:
    """The traces of one claim; without a tracer, those of callers are passed on."""

    def __init__(self, tracer: RunTracer | None) -> None:
        self._tracer = tracer
        self._traced: set[int] = set()  # runs of which this admin records spans

    def begin(self, moves: Sequence[Move]) -> list[Move]:
        """Let runs that start here begin a trace, if they have none and the sampler takes them.

        It is written with the move: runs that are not sampled cost nothing.
        """
        if self._tracer is None:
            return list(moves)
        return [self._begun(move, self._tracer) if _starts(move) else move for move in moves]

    def _begun(self, move: Move, tracer: RunTracer) -> Move:
        run = move.after
        trace = trace_of(run)
        if not tracer.samples(trace or own_trace(run)):
            return move
        self._traced.add(run.id)
        if trace is not None:
            return move
        return replace(move, after=replace(run, trace=stored(own_trace(run))))

    def is_traced(self, run: Run) -> bool:
        """Whether this admin records spans of it."""
        return run.id in self._traced

    def of_attempt(self, run: Run) -> TraceContext | None:
        """What its node is told; None: nothing."""
        return trace_for_node(
            run, is_traced=self.is_traced(run), begins_traces=self._tracer is not None
        )


def _starts(move: Move) -> bool:
    """Whether it goes to a node, or is a fire or workflow whose shards or steps will."""
    before, after = move.before.state, move.after.state
    return before is RunState.QUEUED and (
        after is RunState.DISPATCHED or (is_whole(move.after) and after is RunState.RUNNING)
    )
