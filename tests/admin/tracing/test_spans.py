"""Spans of runs, from the claim to the record, over retries, children, shards and two admins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

import pytest
import sqlalchemy as sa
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio, Sampler

from tests.admin.kit.engine import Admin, new_executor_id
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, create_schema, get_run
from tests.admin.kit.work_counter import counted
from tests.admin.kit.workflows import Player, add_workflow, step
from tickwheel_admin.domain.jobs.children import ChildLink, ChildOn
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.runs.trace import NO_PARENT, caller_trace
from tickwheel_admin.engine.dispatcher.loop import Dispatcher
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.tracing.spans import ChosenIds, RunSpans
from tickwheel_shared.protocol import Outcome, RunRequest
from tickwheel_shared.trace_context import TraceContext, read_trace_context

CALLER = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "01", "vendor=1")


class Spans(InMemorySpanExporter):
    """Keeps the spans of all admins that have one of its tracers."""

    def __init__(self) -> None:
        super().__init__()
        self._tracers: list[RunSpans] = []

    def finished(self) -> Sequence[ReadableSpan]:
        """All spans so far."""
        for each in self._tracers:
            each.finish()
        return self.get_finished_spans()

    def end(self) -> None:
        for each in self._tracers:
            each._thread.shutdown()

    def tracer(self, sampler: Sampler | None = None) -> RunSpans:
        ids = ChosenIds()
        provider = TracerProvider(
            sampler, id_generator=cast("IdGenerator", ids), shutdown_on_exit=False
        )
        provider.add_span_processor(SimpleSpanProcessor(self))
        self._tracers.append(RunSpans(provider, ids))
        return self._tracers[-1]

    def tree(self) -> dict[str, list[str]]:
        """Trace id → its spans as paths of names; a parent that nobody recorded is its id."""
        found = self.finished()
        by_id = {_id(span): span for span in found}
        assert len(by_id) == len(found), "two spans have the same id"
        paths: dict[str, list[str]] = {}
        for span in found:
            assert span.context is not None
            paths.setdefault(f"{span.context.trace_id:032x}", []).append(_path(span, by_id))
        return {trace_id: sorted(each) for trace_id, each in paths.items()}


def _id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def _path(span: ReadableSpan, by_id: dict[str, ReadableSpan]) -> str:
    if span.parent is None:
        return span.name
    parent = f"{span.parent.span_id:016x}"
    return f"{_path(by_id[parent], by_id) if parent in by_id else parent} > {span.name}"


@pytest.fixture
def spans() -> Iterator[Spans]:
    spans = Spans()
    yield spans
    spans.end()


def context_of(request: RunRequest) -> TraceContext:
    assert isinstance(request.traceparent, str)
    state = request.tracestate if isinstance(request.tracestate, str) else ""
    context = read_trace_context(request.traceparent, state)
    assert context is not None
    return context


def sent_below(spans: Spans, request: RunRequest) -> str:
    """The path of the span that the node's own will be below."""
    span_id = context_of(request).span_id
    by_id = {_id(span): span for span in spans.finished()}
    return _path(by_id[span_id], by_id)


@pytest.mark.every_database
async def test_one_trace_from_the_caller_over_two_admins_to_a_retry_and_a_child(
    database: Database, spans: Spans
) -> None:
    executor_id = new_executor_id()
    first = Admin(database, tracer=spans.tracer())
    second = Admin(database, admin_id=2, tracer=spans.tracer())
    node = await first.add_node(executor_id)
    child = await add_job(database, executor_id=executor_id, name="child")
    job_id = await add_job(
        database,
        executor_id=executor_id,
        name="parent",
        retry=RetryPolicy(retries=1, delay_ms=0),
        children=(ChildLink(job_id=child, on=ChildOn.SUCCESS),),
    )
    await ask(database, job_id, trace=caller_trace(CALLER.traceparent, CALLER.state))

    [one] = await first.dispatch(node)
    await first.say(node, accepted(one), result(one, Outcome.FAILED, message="no"))
    second.links.sessions = first.links.sessions
    [two] = await second.dispatch(node)
    await second.say(node, accepted(two), result(two))
    [three] = await first.dispatch(node)
    await first.say(node, result(three))

    assert [context_of(each).state for each in (one, two, three)] == ["vendor=1"] * 3
    request = f"{CALLER.span_id} > request parent"
    claims = f"{request} > claim"
    of_child = f"{claims} > record > child child"
    assert spans.tree() == {
        CALLER.trace_id: sorted(
            [
                request,
                *[claims, f"{claims} > send hello", f"{claims} > record"] * 2,
                of_child,
                f"{of_child} > claim",
                f"{of_child} > claim > send hello",
                f"{of_child} > claim > record",
            ]
        )
    }
    sent = [sent_below(spans, each) for each in (one, two, three)]
    assert sent == [*[f"{claims} > send hello"] * 2, f"{of_child} > claim > send hello"]
    records = [span for span in spans.finished() if span.name == "record"]
    told = [dict(span.attributes or {}) for span in records]  # each admin writes in its own time
    assert sorted(
        (each["tickwheel.run.attempt"], each["tickwheel.attempt.state"], span.status.is_ok)
        for each, span in zip(told, records, strict=True)
    ) == [(1, "failed", False), (1, "succeeded", True), (2, "succeeded", True)]
    [failed] = [each for each in told if each["tickwheel.attempt.state"] == "failed"]
    assert failed["tickwheel.run.state"] == "queued"
    assert all((span.end_time or 0) >= (span.start_time or 1) for span in records)


@pytest.mark.every_database
async def test_a_fire_begins_a_trace_that_its_shards_share(
    database: Database, spans: Spans
) -> None:
    executor_id = new_executor_id()
    admin = Admin(database, tracer=spans.tracer())
    node = await admin.add_node(executor_id)
    routing = RoutingPolicy(strategy=Routing.SHARDS, shards=2)
    alone = await add_job(database, executor_id=executor_id, name="alone")
    broadcast = await add_job(database, executor_id=executor_id, name="all", routing=routing)
    plain = await ask(database, alone, origin=Origin.SCHEDULE)
    fire = await ask(database, broadcast)

    requests = {request.run: request for request in await admin.dispatch_all(node)}

    traces = {(await get_run(database, each)).trace: each for each in (plain, fire)}
    begun = {text[3:35]: run_id for text, run_id in traces.items() if text is not None}
    assert set(begun.values()) == {plain, fire}
    assert all(NO_PARENT in (text or "") for text in traces)
    tree = {begun[trace_id]: paths for trace_id, paths in spans.tree().items()}
    for run_id, name, sent in ((plain, "fire alone", 1), (fire, "request all", 2)):
        claims = [f"{name} > claim"] * sent + [f"{name} > claim > send hello"] * sent
        assert tree[run_id] == [name, *claims]
    assert {context_of(each).trace_id for each in requests.values()} == set(begun)


async def test_the_steps_of_a_workflow_are_below_it(database: Database, spans: Spans) -> None:
    executor_id = new_executor_id()
    admin = Admin(database, tracer=spans.tracer())
    node = await admin.add_node(executor_id)
    job_id = await add_workflow(database, step("a"), step("b", "a"), executor_id=executor_id)
    await ask(database, job_id)
    player = Player(admin, node)
    for each in ("a", "b"):
        await player.claim()
        await player.end(each)

    [paths] = spans.tree().values()
    shape = [[name.partition(" ")[0] for name in path.split(" > ")] for path in paths]
    claim = ["request", "step", "claim"]
    of_step = [claim[:2], claim, [*claim, "record"], [*claim, "send"]]
    assert sorted(shape) == sorted([["request"], *of_step, *of_step])


async def test_what_is_not_sampled_is_neither_stored_nor_recorded_and_nodes_are_told(
    database: Database, spans: Spans
) -> None:
    executor_id = new_executor_id()
    admin = Admin(database, tracer=spans.tracer(ParentBasedTraceIdRatio(0.0)))
    node = await admin.add_node(executor_id)
    job_id = await add_job(database, executor_id=executor_id)
    run_id = await ask(database, job_id)
    asked_for = await ask(database, job_id, after=1, trace=caller_trace(CALLER.traceparent))
    requests = {request.run: request for request in await admin.dispatch_all(node)}
    await admin.say(node, *(result(request) for request in requests.values()))

    assert (await get_run(database, run_id)).trace is None
    assert not context_of(requests[run_id]).is_sampled
    assert context_of(requests[asked_for]).is_sampled
    assert set(spans.tree()) == {CALLER.trace_id}


async def test_without_a_tracer_a_callers_trace_is_passed_on_as_it_came(
    database: Database,
) -> None:
    executor_id = new_executor_id()
    admin = Admin(database)
    node = await admin.add_node(executor_id)
    job_id = await add_job(database, executor_id=executor_id)
    with_trace = await ask(database, job_id, trace=caller_trace(CALLER.traceparent, CALLER.state))
    without = await ask(database, job_id, after=1)
    requests = {request.run: request for request in await admin.dispatch_all(node)}
    assert context_of(requests[with_trace]) == CALLER
    assert not isinstance(requests[without].traceparent, str)


async def test_a_lost_attempt_is_recorded_by_the_sweeper(database: Database, spans: Spans) -> None:
    executor_id = new_executor_id()
    admin = Admin(database, tracer=spans.tracer())
    node = await admin.add_node(executor_id)
    job_id = await add_job(
        database, executor_id=executor_id, name="lost", retry=RetryPolicy(on_lost=False)
    )
    await ask(database, job_id)
    [request] = await admin.dispatch(node)
    await admin.say(node, accepted(request))
    await database.run(
        lambda conn: conn.execute(
            sa.update(tables.node)
            .where(tables.node.c.id == node.node_id)
            .values(lease_expires_at=1, full_lease_at=1)
        )
    )
    admin.trust_own_view()
    await admin.engine.sweeper.run_once()
    [record] = [span for span in spans.finished() if span.name == "record"]
    assert dict(record.attributes or {})["tickwheel.run.state"] == "lost"
    assert not record.status.is_ok


@pytest.mark.every_database(nightly=True)
async def test_traces_cost_the_database_no_statement(
    database_url: str, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is asked now and then is asked in the first round only.
    monkeypatch.setattr(Dispatcher, "interval_seconds", math.inf)

    async def costs(admin: Admin, executor_id: int, runs: int) -> Sequence[int]:
        node = await admin.add_node(executor_id, slots=runs)
        job_id = await add_job(database, executor_id=executor_id)
        for number in range(runs):
            await ask(database, job_id, after=number)
        async with counted(database) as claim:
            requests = await admin.dispatch_all(node)
        assert len(requests) == runs
        async with counted(database) as record:
            await admin.say(node, *map(result, requests))
        return claim.statements, record.statements

    database = Database(database_url)
    try:
        await create_schema(database)
        plain, traced = [
            [await costs(admin, new_executor_id(), 20) for _ in range(2)]
            for admin in (Admin(database), Admin(database, tracer=spans.tracer()))
        ]
    finally:
        await database.close()
    assert traced[1] == plain[1]
    assert len(spans.tree()) == 40
