"""What an admin records of a run that is part of a trace: request or fire, claim, send, record.

The spans of a run come from several admins and are finished in any order, so their ids are computed
from the run (`domain.runs.trace`), and they are written when they are over, from instants of the
database. Nothing is kept in between.

    request | fire | child | step  from the run's creation to its first claim
    ├─ claim                    the transaction that chose the node
    │  ├─ send                  until the node's frame was queued
    │  │  └─ (the node's span, and those of the handler)
    │  └─ record                the transaction that wrote how the attempt ended
    └─ claim                    of the next try
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, cast

import structlog

from tickwheel_admin.domain.runs import trace as trace_ids
from tickwheel_admin.domain.runs.run import FAILURES, Move, Origin, Run
from tickwheel_admin.domain.runs.trace import NO_PARENT
from tickwheel_admin.engine.ports import TracedRun
from tickwheel_shared.otel import create_provider, flush
from tickwheel_shared.trace_context import TraceContext

if TYPE_CHECKING:  # the extra `otel` may not be installed
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.util.types import AttributeValue

log = structlog.get_logger(__name__)

MAX_WAITING = 10_000  # runs whose spans are not made yet; those of others are dropped
_NS = 1_000_000  # a millisecond
_FIRST_SPANS = {
    Origin.SCHEDULE: "fire",
    Origin.MISFIRE: "fire",
    Origin.CHILD: "child",
    Origin.STEP: "step",
}


class ChosenIds:
    """An IdGenerator that gives what was chosen before, in the same thread."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id

    def is_trace_id_random(self) -> bool:
        return False  # a hash


class RunSpans:
    """Implements `RunTracer`.

    Spans are made in a thread: those of a full claim take 50 ms, for which no socket may wait.
    """

    def __init__(self, provider: TracerProvider, ids: ChosenIds) -> None:
        """`provider` must use `ids`."""
        self._provider = provider
        self._ids = ids
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="traces")
        self._lock = Lock()
        self._waiting = 0  # runs whose spans are not made yet
        self._tracer = provider.get_tracer("tickwheel.admin")

    @classmethod
    def from_environment(cls, *, name: str) -> RunSpans:
        """With what the variables `OTEL_*` say.

        Args:
            name: of this admin.

        Raises:
            TracingError: an exporter is not installed.
        """
        ids = ChosenIds()
        generator = cast("IdGenerator", ids)
        return cls(create_provider(service="tickwheel-admin", instance=name, ids=generator), ids)

    def finish(self) -> None:
        """Wait until all spans so far are made."""
        self._thread.submit(lambda: None).result()

    async def close(self) -> None:
        """Export what waits, for some seconds at most."""
        await asyncio.to_thread(self.finish)
        self._thread.shutdown()
        await flush(self._provider)

    # --- RunTracer ----------------------------------------------------------------------------

    def samples(self, trace: TraceContext) -> bool:
        from opentelemetry.sdk.trace.sampling import Decision

        parent = _context(trace, trace.span_id)
        decided = self._provider.sampler.should_sample(parent, int(trace.trace_id, 16), "run")
        return decided.decision is Decision.RECORD_AND_SAMPLE

    def claimed(
        self, runs: Sequence[TracedRun], *, at: int, committed_ms: float, sent_ms: float
    ) -> None:
        committed_at, sent_at = at + committed_ms, at + max(sent_ms, committed_ms)
        self._later(lambda: self._make_claimed(runs, at, committed_at, sent_at), runs=len(runs))

    def recorded(self, moves: Sequence[Move], *, at: int, committed_ms: float) -> None:
        self._later(lambda: self._make_recorded(moves, at, at + committed_ms), runs=len(moves))

    # --- in the thread ------------------------------------------------------------------------

    def _later(self, make: Callable[[], None], *, runs: int) -> None:
        if self._waiting > MAX_WAITING:
            return  # as the library drops what its queue cannot hold

        def work() -> None:
            try:
                make()
            except Exception:  # a trace is no reason to stop; whoever looks for it finds this
                log.exception("trace.not_recorded", runs=runs)
            finally:
                with self._lock:
                    self._waiting -= runs

        with self._lock:
            self._waiting += runs
        self._thread.submit(work)

    def _make_claimed(
        self, runs: Sequence[TracedRun], at: int, committed_at: float, sent_at: float
    ) -> None:
        for traced in runs:
            run = traced.run
            context = trace_ids.trace_of(run)
            if context is None:
                continue
            named = {"tickwheel.job.name": traced.job, "tickwheel.handler": traced.handler}
            common = _attributes(run) | named
            root = trace_ids.root_span(run)
            if run.fire_id is None and run.attempt <= 1:
                self._record(
                    f"{_FIRST_SPANS.get(run.origin, 'request')} {traced.job}",
                    context,
                    root,
                    below=context.span_id,
                    start=run.created_at,
                    end=at,
                    attributes=common | _request_attributes(run),
                )
            if trace_ids.is_whole(run):
                continue
            claim, send = trace_ids.claim_span(run), trace_ids.send_span(run)
            attempt = common | _attempt_attributes(run)
            self._record(
                "claim", context, claim, below=root, start=at, end=committed_at, attributes=attempt
            )
            self._record(
                f"send {traced.handler}",
                context,
                send,
                below=claim,
                start=committed_at,
                end=sent_at,
                attributes=attempt,
                is_producer=True,
            )

    def _make_recorded(self, moves: Sequence[Move], at: int, committed_at: float) -> None:
        for move in moves:
            run = move.before
            context = trace_ids.trace_of(run)
            if context is None:
                continue
            ended = move.archived or move.after  # of a try that is followed by another
            attributes = _attributes(run) | _attempt_attributes(run)
            attributes["tickwheel.attempt.state"] = ended.state.value
            attributes["tickwheel.run.state"] = move.after.state.value
            if ended.reason is not None:
                attributes["tickwheel.attempt.reason"] = ended.reason
            self._record(
                "record",
                context,
                trace_ids.record_span(run),
                below=trace_ids.claim_span(run),
                start=at,
                end=committed_at,
                attributes=attributes,
                failed=ended.state in FAILURES,
            )

    def _record(
        self,
        name: str,
        trace: TraceContext,
        span_id: str,
        *,
        below: str,
        start: float,
        end: float,
        attributes: Mapping[str, AttributeValue],
        is_producer: bool = False,
        failed: bool = False,
    ) -> None:
        """Write a span that is over; instants in UTC epoch ms."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        parent = _context(trace, below)
        kind = SpanKind.PRODUCER if is_producer else SpanKind.INTERNAL
        self._ids.trace_id, self._ids.span_id = int(trace.trace_id, 16), int(span_id, 16)
        span = self._tracer.start_span(
            name, parent, kind, attributes=attributes, start_time=int(start * _NS)
        )
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(int(max(start, end) * _NS))


def _context(trace: TraceContext, span_id: str) -> Context:
    """Of what belongs to this span of the trace; NO_PARENT: of what begins the trace."""
    from opentelemetry.context import Context
    from opentelemetry.trace import (
        NonRecordingSpan,
        SpanContext,
        TraceFlags,
        TraceState,
        set_span_in_context,
    )

    if span_id == NO_PARENT:
        return Context()
    parent = SpanContext(
        int(trace.trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(trace.flags, 16)),
        trace_state=TraceState.from_header([trace.state]) if trace.state else None,
    )
    return set_span_in_context(NonRecordingSpan(parent), Context())


def _attributes(run: Run) -> dict[str, AttributeValue]:
    return {
        "tickwheel.run.id": run.id,
        "tickwheel.job.id": run.job_id,
        "tickwheel.executor.id": run.executor_id,
    }


def _request_attributes(run: Run) -> dict[str, AttributeValue]:
    """What is known of a run before it is claimed; instants in UTC epoch ms."""
    found: dict[str, AttributeValue | None] = {
        "tickwheel.run.origin": run.origin.value,
        "tickwheel.run.due_at": run.first_due_at,
        "tickwheel.trigger.id": run.trigger_id,
        "tickwheel.run.retry_of": run.retry_of,
        "tickwheel.run.parent_id": run.parent_run_id,
        "tickwheel.run.shards": run.shard_total if run.is_fire else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _attempt_attributes(run: Run) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {"tickwheel.run.attempt": run.attempt}
    if run.node_id is not None:
        found["tickwheel.node.id"] = run.node_id
    if run.fire_id is not None:
        found |= {"tickwheel.run.fire_id": run.fire_id, "tickwheel.run.shard": run.shard_index}
    return found
