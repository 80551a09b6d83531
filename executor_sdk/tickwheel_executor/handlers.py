"""The handlers a process offers, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from .context import Run
from .errors import HandlerError

# What may be registered: no argument, or the run; the return value becomes the run's result.
HandlerFunction = Callable[[], Any] | Callable[[Run], Any]

MAX_NAME_CHARS = 128
MAX_HANDLERS = 2_000  # an admin takes no more in a hello


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """One function that runs the jobs which name it."""

    name: str
    function: Callable[..., Any]
    takes_run: bool  # called with the run, else with nothing
    is_async: bool  # runs on the event loop, else in a thread

    def call(self, run: Run) -> Any:
        """Call the function; for an async one this only makes its coroutine."""
        return self.function(run) if self.takes_run else self.function()


class Handlers:
    """All handlers of a node. Complete before the node starts: its hello lists them."""

    def __init__(self) -> None:
        self._by_name: dict[str, Handler] = {}
        self._closed = False

    def add(self, name: str, function: HandlerFunction) -> None:
        """Offer `function` under this name.

        Raises:
            HandlerError: bad or taken name, unsuitable signature, or the node has started.
        """
        if self._closed:
            raise HandlerError(f"handler {name!r} comes too late: the executor has started")
        if not name or len(name) > MAX_NAME_CHARS or name != name.strip() or not name.isprintable():
            raise HandlerError(
                f"handler name {name!r}: wanted 1 to {MAX_NAME_CHARS} printable characters "
                "without spaces around them"
            )
        if len(self._by_name) >= MAX_HANDLERS:
            raise HandlerError(f"more than {MAX_HANDLERS:,} handlers in one executor")
        if name in self._by_name:
            raise HandlerError(f"there is a handler {name!r} already")
        self._by_name[name] = _inspect(name, function)

    def close(self) -> None:
        """Take no more: the node is about to say what it offers."""
        self._closed = True

    def get(self, name: str) -> Handler | None:
        """The handler of that name."""
        return self._by_name.get(name)

    def only(self, name: str) -> Handlers:
        """A set of just this handler, as registered; this one stays open.

        Raises:
            HandlerError: there is none of that name.
        """
        if name not in self._by_name:
            raise HandlerError(self.explain_unknown(name))
        one = Handlers()
        one._by_name[name] = self._by_name[name]
        return one

    @property
    def unstoppable(self) -> list[str]:
        """Names of the plain functions: once one runs, nothing but itself can end it."""
        return [handler.name for handler in self._by_name.values() if not handler.is_async]

    def explain_unknown(self, name: str) -> str:
        """One sentence for a run whose handler is not here."""
        close = get_close_matches(name, self._by_name, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        return f"no handler {name!r} on this node{hint}; it has: {', '.join(self) or 'none'}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def _inspect(name: str, function: HandlerFunction) -> Handler:
    if not callable(function):
        raise HandlerError(f"handler {name!r} is not a function")
    # An object with an async __call__ is as good as an async def.
    code = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise HandlerError(f"handler {name!r} is a generator; return a value instead of yielding")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()  # a built-in that tells nothing about itself: called with nothing
    required = [p for p in parameters if p.default is p.empty and p.kind not in _VARIADIC]
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    # An optional argument is the run only when it says so: def cleanup(days=30) keeps its default.
    takes_run = bool(required) or bool(positional and positional[0].name == "run")
    if len(required) > 1 or any(p.kind is p.KEYWORD_ONLY for p in required):
        raise HandlerError(
            f"handler {name!r} takes {inspect.signature(function)}; it may take nothing or one "
            "argument, the run (parameters are in run.parameters)"
        )
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(code)
    return Handler(name=name, function=function, takes_run=takes_run, is_async=is_async)


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
