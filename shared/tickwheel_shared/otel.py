"""Sets OpenTelemetry up from its usual environment variables, for an admin and for a node.

Nothing of OpenTelemetry is imported before it is asked for here: it is an extra (`otel`), and a
process that does not trace must not pay for it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import entry_points
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.sdk.trace.id_generator import IdGenerator

INSTALL = "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
FLUSH_SECONDS = 5  # for spans that wait when the process ends
_NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


class TracingError(ValueError):
    """Traces cannot be exported as the environment asks; the message says what to do."""


def is_installed() -> bool:
    """Whether the packages of the extra are there; imports none of them."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:  # not even the package that they are in
        return False


def create_provider(
    *, service: str, instance: str, ids: IdGenerator | None = None, until_exit: bool = False
) -> TracerProvider:
    """A provider whose sampler, exporters and batches are those of the environment (`OTEL_*`).

    Args:
        service: `service.name`, unless the environment names another.
        instance: `service.instance.id`, likewise.
        ids: chooses the ids of spans and traces; None: random ones.
        until_exit: it is shut down when the process exits, and not by its user.

    Raises:
        TracingError: OTEL_TRACES_EXPORTER or the protocol names something that is not installed.
    """
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    exporters = list(_exporters())
    provider = TracerProvider(
        resource=_resource(service, instance), id_generator=ids, shutdown_on_exit=until_exit
    )
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


async def flush(provider: object) -> None:
    """Export what waits, for FLUSH_SECONDS at most.

    The library itself waits for a collector that is away, however little time it is given.
    """
    export: Callable[[], object] | None = getattr(provider, "force_flush", None)
    if export is None:  # not every provider has it
        return
    loop = asyncio.get_running_loop()
    exported = asyncio.Event()

    def run() -> None:
        export()
        with suppress(RuntimeError):  # nobody waits any more, and the loop has ended
            loop.call_soon_threadsafe(exported.set)

    Thread(target=run, name="tickwheel-traces", daemon=True).start()
    with suppress(TimeoutError):
        async with asyncio.timeout(FLUSH_SECONDS):
            await exported.wait()


def _resource(service: str, instance: str) -> Resource:
    from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource

    given = Resource.create()
    ours: dict[str, str] = {}
    if str(given.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        ours[SERVICE_NAME] = service
    # The library makes a random one up, which nobody recognises.
    if SERVICE_INSTANCE_ID not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        ours[SERVICE_INSTANCE_ID] = instance
    return given.merge(Resource(ours))


def _exporters() -> Iterator[SpanExporter]:
    names = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    for name in (each.strip() for each in names.split(",")):
        if name in ("", "none"):
            continue
        found = entry_points(group="opentelemetry_traces_exporter", name=_entry_point(name))
        if not found:
            raise TracingError(
                f"OTEL_TRACES_EXPORTER: no exporter {name!r} is installed; install its package, or "
                "use otlp"
            )
        exporter: SpanExporter = next(iter(found)).load()()
        yield exporter


def _entry_point(name: str) -> str:
    if name != "otlp":
        return name
    protocol = (
        os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "http/protobuf"
    )
    if protocol not in _PROTOCOLS:
        raise TracingError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol!r} is not one of {', '.join(_PROTOCOLS)}"
        )
    return _PROTOCOLS[protocol]
