"""How OpenTelemetry is set up from its environment variables."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import SynchronousMultiSpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

from tickwheel_shared.otel import TracingError, create_provider, flush


def provider_with(monkeypatch: pytest.MonkeyPatch, **environment: str) -> TracerProvider:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return create_provider(service="shop", instance="node-1")


def test_the_environment_names_sampler_and_service(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = provider_with(monkeypatch, OTEL_TRACES_EXPORTER="none").resource.attributes
    assert (ours["service.name"], ours["service.instance.id"]) == ("shop", "node-1")
    provider = provider_with(
        monkeypatch,
        OTEL_SERVICE_NAME="till",
        OTEL_RESOURCE_ATTRIBUTES="service.instance.id=7,zone=eu",
        OTEL_TRACES_SAMPLER="parentbased_traceidratio",
        OTEL_TRACES_SAMPLER_ARG="0.01",
    )
    theirs = provider.resource.attributes
    assert (theirs["service.name"], theirs["service.instance.id"]) == ("till", "7")
    assert theirs["zone"] == "eu"
    assert isinstance(provider.sampler, ParentBasedTraceIdRatio)


@pytest.mark.parametrize(
    ("environment", "rule"),
    [
        ({"OTEL_TRACES_EXPORTER": "otlp,pigeon"}, "no exporter 'pigeon' is installed"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "is not one of http/protobuf, grpc"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "no exporter 'otlp' is installed"),
    ],
)
def test_what_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], rule: str
) -> None:
    with pytest.raises(TracingError, match=rule):
        provider_with(monkeypatch, **environment)


async def test_a_provider_that_cannot_flush_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    await flush(object())
    flushed: list[int] = []
    processors = SynchronousMultiSpanProcessor()
    monkeypatch.setattr(processors, "force_flush", flushed.append)
    await flush(TracerProvider(active_span_processor=processors, shutdown_on_exit=False))
    assert len(flushed) == 1
