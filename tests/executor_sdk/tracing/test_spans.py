"""The span of an attempt, and what is below it: in tasks, threads, processes and programs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from tests.executor_sdk.offers.running import CHILDREN
from tests.executor_sdk.scripted_admin import connect, request, value
from tickwheel_executor import Run
from tickwheel_executor.client.trace import trace_headers_here
from tickwheel_executor.handlers.handlers import Limits
from tickwheel_executor.offers.command import Command
from tickwheel_executor.testing import run_handler
from tickwheel_executor.tracing.spans import AttemptTracer
from tickwheel_shared.protocol import Outcome, Result

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


class Spans(InMemorySpanExporter):
    """Keeps the spans of one node, and gives handlers a tracer."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self))
        self.of_handlers = self.provider.get_tracer("shop")

    def found(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.get_finished_spans()}


def ids(span: ReadableSpan) -> tuple[str, str, str | None]:
    """Trace, span and parent."""
    assert span.context is not None
    parent = None if span.parent is None else f"{span.parent.span_id:016x}"
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}", parent


async def run_with(
    spans: Spans, handler: Any, *, limits: Limits | None = None, **given: Any
) -> Any:
    _, node, session = await connect(
        {"work": handler}, tracer=AttemptTracer(spans.provider), limits=limits
    )
    session.send(request(1, **given))
    result = await session.expect(Result)
    await node.drain(5)
    return result


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_what_a_handler_does_is_below_its_attempt_and_that_below_the_admin(kind: str) -> None:
    spans = Spans()

    def work(run: Run) -> dict[str, str]:
        with spans.of_handlers.start_as_current_span("charge"):
            return run.trace_headers | {"called": trace_headers_here()["traceparent"]}

    async def work_async(run: Run) -> dict[str, str]:
        return work(run)

    handler = work if kind == "thread" else work_async
    seen = value(await run_with(spans, handler, traceparent=TRACEPARENT, tracestate="vendor=1"))

    found = spans.found()
    attempt, charge = ids(found["run work"]), ids(found["charge"])
    assert attempt == (TRACE, attempt[1], PARENT)
    assert charge == (TRACE, charge[1], attempt[1])
    assert seen == {
        "traceparent": f"00-{TRACE}-{attempt[1]}-01",
        "tracestate": "vendor=1",
        "called": f"00-{TRACE}-{charge[1]}-01",  # a run that the handler asks for
    }
    told = dict(found["run work"].attributes or {})
    assert (told["tickwheel.run.id"], told["tickwheel.attempt.state"]) == (1, "succeeded")
    assert found["run work"].kind is trace.SpanKind.CONSUMER
    assert not trace.get_current_span().get_span_context().is_valid, "the node itself is in none"


async def test_a_failure_shows_and_a_run_without_a_trace_begins_one() -> None:
    spans = Spans()

    async def work() -> None:
        raise ValueError("no such order\nsecond line")

    result = await run_with(spans, work)
    span = spans.found()["run work"]
    assert result.outcome is Outcome.FAILED
    assert span.parent is None
    assert (span.status.is_ok, span.status.description) == (False, "ValueError: no such order")


async def test_what_the_admin_does_not_sample_is_not_recorded_but_passed_on() -> None:
    spans = Spans(sampler=ParentBased(ALWAYS_OFF))

    async def work(run: Run) -> str:
        return run.trace_headers["traceparent"]

    seen = value(await run_with(spans, work, traceparent=TRACEPARENT[:-1] + "0"))
    assert spans.found() == {}
    assert (seen[3:35], seen[-2:]) == (TRACE, "00")


def look(run: Run) -> list[str]:
    """In a process: which span is it in?"""
    context = trace.get_current_span().get_span_context()
    return [f"{context.trace_id:032x}", f"{context.span_id:016x}", run.trace_headers["traceparent"]]


async def test_a_handler_in_a_process_is_in_the_span_that_its_node_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    spans = Spans()
    seen = value(await run_with(spans, look, limits=Limits(), traceparent=TRACEPARENT))
    trace_id, span_id, parent = ids(spans.found()["run work"])
    assert (trace_id, parent) == (TRACE, PARENT)
    assert seen == [trace_id, span_id, f"00-{trace_id}-{span_id}-01"]


async def test_programs_find_the_trace_in_their_environment() -> None:
    """Also on a node that does not trace itself."""
    offer = Command(children=CHILDREN)
    argv = [sys.executable, "-c", "import os; print(os.environ.get('TRACEPARENT'))"]
    for traceparent in (TRACEPARENT, None):
        end = await run_handler(
            offer.run, "command", parameters={"argv": argv}, traceparent=traceparent
        )
        assert end.lines("info") == [str(traceparent)]


# In a process of its own, because others of this one import OpenTelemetry.
_IMPORTED = """
import asyncio, json, sys
from tickwheel_executor import Client, Executor
from tickwheel_executor.testing import FakeAdmin

async def main():
    async with FakeAdmin() as admin:
        executor = Executor("billing", admins=[admin.url], token=admin.token, spool_dir=sys.argv[1])
        client = Client([admin.url], admin.api_token)
        @executor.handler("look")
        async def look(run):
            return run.trace_headers
        @executor.handler("ask")
        async def ask(run):
            return (await client.wait(await client.run_job("billing/look"))).result
        async with executor:
            return (await admin.run("ask", traceparent=sys.argv[2])).result

headers = asyncio.run(main())
print(json.dumps({
    "headers": headers,
    "imported": [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"],
}))
"""


def test_a_node_that_does_not_trace_imports_nothing_of_it_but_passes_traces_on(
    tmp_path: Any,
) -> None:
    command = [sys.executable, "-c", _IMPORTED, str(tmp_path), TRACEPARENT]
    done = subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert json.loads(done.stdout) == {"headers": {"traceparent": TRACEPARENT}, "imported": []}
