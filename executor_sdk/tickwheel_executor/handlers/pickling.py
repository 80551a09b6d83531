"""Handlers with isolation="process", pickled: names that the pool processes import."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tickwheel_executor.errors import HandlerError
from tickwheel_executor.text import exception_text

from .hooks import Hooks


@dataclass(frozen=True, slots=True, kw_only=True)
class PickledHandlers:
    """Functions in the form in which a pool process loads them."""

    handlers: Mapping[str, bytes]  # by name
    hooks: bytes  # a pair of lists: on_started, on_ended


def pickle_handlers(functions: Mapping[str, Callable[..., Any]], hooks: Hooks) -> PickledHandlers:
    """Pickle these for another process.

    Raises:
        HandlerError: it could not import one of them; says what to do.
    """
    if functions and not _has_importable_main():
        for name, function in functions.items():
            if getattr(function, "__module__", None) == "__main__":
                raise HandlerError(
                    f"handler {name!r}: a process of its own cannot import it, because this "
                    "program was not started from a file; define it in a module"
                )
    around: list[Callable[..., Any]] = [*hooks.started, *hooks.ended]
    for hook in around:
        _dumped(f"hook {getattr(hook, '__qualname__', hook)!r}", hook)
    return PickledHandlers(
        handlers={name: _dumped(f"handler {name!r}", each) for name, each in functions.items()},
        hooks=pickle.dumps((hooks.started, hooks.ended)),
    )


def _dumped(what: str, function: Callable[..., Any]) -> bytes:
    try:
        return pickle.dumps(function)
    except Exception as error:  # an object's own code may raise anything
        raise HandlerError(
            f'{what}: with isolation="process" it is imported by another process, and cannot be '
            f"({exception_text(error)}): define it at the top level of a module, under its own name"
        ) from error


def _has_importable_main() -> bool:
    main = sys.modules.get("__main__")
    return getattr(main, "__spec__", None) is not None or bool(getattr(main, "__file__", None))
