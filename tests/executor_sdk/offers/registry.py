"""Takes what an offer registers, so that a test can run it without an executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tickwheel_executor.offers import Offer


class Registry:
    """The registered functions, by name."""

    def __init__(self) -> None:
        self.functions: dict[str, Any] = {}

    def handler(self, name: str) -> Callable[[Any], Any]:
        def register(function: Any) -> Any:
            self.functions[name] = function
            return function

        return register


def handler_of(offer: Offer, name: str) -> Any:
    """The function that an offer registers under this name."""
    registry = Registry()
    offer.register(registry)
    return registry.functions[name]
