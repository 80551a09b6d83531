"""A span for each attempt, below which its handler's own spans are.

The service's own tracer provider is used, if it has set one up. Otherwise one is made from the
usual environment variables (`OTEL_*`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from tickwheel_executor.version import VERSION
from tickwheel_shared.otel import create_provider, flush
from tickwheel_shared.protocol import Outcome, Result, RunRequest
from tickwheel_shared.trace_context import TraceContext

if TYPE_CHECKING:  # the extra `otel` may not be installed
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

_NO_ERROR = (Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.CANCELLED)


class AttemptTracer:
    """Begins the spans of attempts."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("tickwheel.executor", VERSION)

    @classmethod
    def of_process(cls, *, service: str, instance: str, until_exit: bool = False) -> AttemptTracer:
        """With the tracer provider of this process, which is made if there is none.

        Args:
            service: what this service is called in traces, unless the environment says otherwise.
            instance: the same of this process.
            until_exit: nobody calls `flush`: what waits is exported when the process exits.

        Raises:
            TracingError: the environment asks for an exporter that is not installed.
        """
        from opentelemetry import trace

        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(
                create_provider(service=service, instance=instance, until_exit=until_exit)
            )
        return cls(trace.get_tracer_provider())

    def begin(self, request: RunRequest) -> AttemptSpan:
        """The span of an attempt that starts now."""
        from opentelemetry.trace import SpanKind

        attributes: dict[str, AttributeValue] = {
            "tickwheel.run.id": request.run,
            "tickwheel.run.attempt": request.attempt,
            "tickwheel.run.try": request.try_number,
            "tickwheel.run.origin": request.origin,
            "tickwheel.job.id": request.job_id,
            "tickwheel.job.name": request.job,
            "tickwheel.handler": request.handler,
        }
        if request.shard_total > 1:
            attributes["tickwheel.run.shard"] = request.shard_index
        return AttemptSpan(
            self._tracer.start_span(
                f"run {request.handler}",
                parent_of(request),
                SpanKind.CONSUMER,
                attributes=attributes,
            )
        )

    async def flush(self) -> None:
        """Export what waits, for some seconds at most."""
        await flush(self._provider)


class AttemptSpan:
    """The span of one attempt."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def context(self) -> TraceContext | None:
        """What belongs to the attempt is below this; None: traces are switched off."""
        context = self._span.get_span_context()
        if not context.is_valid:
            return None
        return TraceContext(
            f"{context.trace_id:032x}",
            f"{context.span_id:016x}",
            f"{int(context.trace_flags.sampled):02x}",
            context.trace_state.to_header(),
        )

    @contextmanager
    def active(self) -> Iterator[None]:
        """What is started meanwhile is below this span."""
        from opentelemetry import context, trace

        token = context.attach(trace.set_span_in_context(self._span, context.Context()))
        try:
            yield
        finally:
            context.detach(token)

    def end(self, result: Result) -> None:
        """The handler has ended."""
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attribute("tickwheel.attempt.state", result.outcome.value)
        if result.outcome not in _NO_ERROR:
            first_line = result.message.partition("\n")[0]
            self._span.set_status(Status(StatusCode.ERROR, first_line))
        self._span.end()


def parent_of(request: RunRequest) -> Context:
    """The context that a request came with; an empty one, if it is part of no trace."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers = {
        name: value
        for name, value in (
            ("traceparent", request.traceparent),
            ("tracestate", request.tracestate),
        )
        if not isinstance(value, msgspec.UnsetType)
    }
    return TraceContextTextMapPropagator().extract(headers, Context())
