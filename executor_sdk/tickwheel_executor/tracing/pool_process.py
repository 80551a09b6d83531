"""Traces in a pool process: the handler's own spans are below the attempt's, which its node has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tickwheel_shared.protocol import RunRequest

from .spans import AttemptTracer, parent_of


class PoolProcessTraces:
    """Made after the service's code was loaded, which may have set up a provider of its own.

    Spans are exported some seconds later, or when the process exits.
    """

    def __init__(self, *, service: str, instance: str) -> None:
        AttemptTracer.of_process(service=service, instance=instance, until_exit=True)

    @contextmanager
    def active(self, request: RunRequest) -> Iterator[None]:
        """What the handler does meanwhile belongs to its attempt."""
        from opentelemetry import context

        token = context.attach(parent_of(request))
        try:
            yield
        finally:
            context.detach(token)
