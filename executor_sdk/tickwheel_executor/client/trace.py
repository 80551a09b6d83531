"""The trace that a request of this program belongs to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tickwheel_executor.run.context import running
from tickwheel_shared.trace_context import read_trace_context

if TYPE_CHECKING:
    from types import ModuleType


def trace_headers_here() -> dict[str, str]:
    """W3C headers of the current span, else of the run whose handler executes; empty: no trace.

    OpenTelemetry is asked only if the program has imported it.
    """
    api = sys.modules.get("opentelemetry.trace")
    headers = {} if api is None else _of_current_span(api)
    if headers:
        return headers
    run = running.get(None)
    return {} if run is None else run.trace_headers


def _of_current_span(api: ModuleType) -> dict[str, str]:
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}"
    found = read_trace_context(parent, context.trace_state.to_header())
    if found is None:
        return {}
    headers = {"traceparent": found.traceparent}
    return headers | {"tracestate": found.state} if found.state else headers
