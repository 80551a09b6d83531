"""Offers: ready-made handlers that whoever runs a machine allows on it.

    Executor("crm", offers=[Script(languages=("shell", "python")), Command()])

Nothing is offered unless it is written down there, or in the configuration file of an agent. Each
offer is a module of its own here. An optional library is imported only by the offer that needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


class HandlerRegistry(Protocol):
    """Where an offer registers its handlers: an Executor is one."""

    def handler(self, name: str) -> Callable[[_Function], _Function]:
        """Register the decorated function under this name.

        Raises:
            HandlerError: the name is taken, or the executor has started.
        """


class Offer(Protocol):
    """A ready-made handler, or several, with the limits that its machine's owner sets.

    A class that can be written into the configuration file of an agent also has a class method
    `from_config(table: Mapping[str, Any], problems: list[str]) -> Self | None`: it reads its
    section with a `ConfigTable` (offers/config.py), appends every problem, and returns None if
    there is one.
    """

    def register(self, executor: HandlerRegistry) -> None:
        """Register the handlers. Called once, when the executor is created.

        Raises:
            HandlerError: a name is taken.
        """
