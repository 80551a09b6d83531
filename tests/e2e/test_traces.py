"""One trace of a caller over processes, as a collector of OpenTelemetry gets it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.e2e.cluster import Cluster
from tests.support.polling import wait_until

PROGRAM = ("-m", "tests.e2e.tracing_program")
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CLAIM = "caller > request charge > claim"
CHILD = f"{CLAIM} > record > child report"
EXPECTED = sorted(
    [
        ("tickwheel-admin", "caller > request charge"),
        *[
            ("tickwheel-admin", CLAIM),
            ("tickwheel-admin", f"{CLAIM} > send charge"),
            ("shop", f"{CLAIM} > send charge > run charge"),
            ("shop", f"{CLAIM} > send charge > run charge > call the bank"),
            ("tickwheel-admin", f"{CLAIM} > record"),
        ]
        * 2,
        ("tickwheel-admin", CHILD),
        ("tickwheel-admin", f"{CHILD} > claim"),
        ("tickwheel-admin", f"{CHILD} > claim > send report"),
        ("shop", f"{CHILD} > claim > send report > run report"),
        ("shop", f"{CHILD} > claim > send report > run report > write the report"),
        ("tickwheel-admin", f"{CHILD} > claim > record"),
    ]
)


class Collector:
    """Takes OTLP over HTTP, as protobuf."""

    def __init__(self) -> None:
        self._spans: dict[bytes, tuple[str, Any]] = {}  # by id: service, span
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.take(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            told = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self._spans[span.span_id] = (told["service.name"], span)

    def spans(self) -> list[tuple[str, str]]:
        """(service, names from the caller's down to its own) of what has arrived."""
        return sorted((service, self._path(span)) for service, span in list(self._spans.values()))

    def trace_ids(self) -> set[str]:
        return {span.trace_id.hex() for _, span in list(self._spans.values())}

    def _path(self, span: Any) -> str:
        parent = self._spans.get(span.parent_span_id)
        if parent is not None:
            return f"{self._path(parent[1])} > {span.name}"
        return f"{'caller' if span.parent_span_id.hex() == CALLER else '?'} > {span.name}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    yield collector
    collector.close()


def test_a_callers_trace_goes_on_to_a_retry_a_child_and_a_pool_process(
    collector: Collector, sqlite_url: str, tmp_path: Path
) -> None:
    with Cluster(tmp_path, sqlite_url) as cluster:
        cluster.start_admin(environment={"TICKWHEEL_TRACING": "true"})
        cluster.add_executor()
        cluster.start_node("node-1", program=PROGRAM)
        report = cluster.add_job("report", "report")
        job_id = cluster.add_job(
            "charge", "charge", retries=1, retry_delay_seconds=0, children=[{"job": report}]
        )
        asked = cluster.api().post(f"/jobs/{job_id}/run", traceparent=f"00-{TRACE}-{CALLER}-01")
        run = cluster.wait_for_run(asked["run_id"], "succeeded")
        assert (run["trace_id"], run["tries"]) == (TRACE, 2)
        wait_until(
            lambda: len(collector.spans()) >= len(EXPECTED), timeout_seconds=20, what="all spans"
        )
    assert collector.spans() == EXPECTED
    assert collector.trace_ids() == {TRACE}
