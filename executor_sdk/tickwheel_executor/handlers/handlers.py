"""The handlers a process offers, by name."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import msgspec

from tickwheel_executor.errors import HandlerError
from tickwheel_executor.run.context import Run, arguments_of
from tickwheel_shared.protocol import MAX_SCHEMA_BYTES, MAX_SCHEMAS_BYTES

from .declared_jobs import JobDeclarations
from .hooks import Hooks
from .signature import Signature

if TYPE_CHECKING:
    from .pickling import PickledHandlers

_logger = logging.getLogger("tickwheel.executor")

# What may be registered: the run and its parameters by name; it returns the run's result.
HandlerFunction = Callable[..., Any]

MAX_NAME_CHARS = 128
MAX_HANDLERS = 2_000  # an admin takes no more in a hello


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run of a handler may take, in a process of its own; None: what there is."""

    memory_mb: int | None = None  # MiB, beyond what the process has before the run
    cpu_seconds: float | None = None  # of all its threads


def limits_of(
    name: str, isolation: str | None, *, memory_mb: int | None, cpu_seconds: float | None
) -> Limits | None:
    """What a handler with these settings is held to; None: it runs in the node's process.

    Raises:
        HandlerError: there is no such isolation, or a limit is impossible.
    """
    if isolation not in (None, "process"):
        raise HandlerError(
            f'handler {name!r}: isolation is "process" or None, not {isolation!r}; without, an '
            "async def shares the event loop and a def has a thread"
        )
    for what, value, kinds in (
        ("memory_mb", memory_mb, (int,)),
        ("cpu_seconds", cpu_seconds, (int, float)),
    ):
        if value is None:
            continue
        if isolation is None:
            raise HandlerError(f'handler {name!r}: {what} needs isolation="process"')
        if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:
            raise HandlerError(f"handler {name!r}: {what} is {value!r}; wanted a number above 0")
    if isolation is None:
        return None
    return Limits(memory_mb=memory_mb, cpu_seconds=cpu_seconds)


class Handler:
    """One function that runs the jobs which name it."""

    __slots__ = (
        "_signature",
        "cpu_seconds",
        "function",
        "hooks",
        "in_process",
        "is_async",
        "memory_mb",
        "name",
    )

    def __init__(
        self, name: str, function: HandlerFunction, *, hooks: Hooks, limits: Limits | None = None
    ) -> None:
        self.name = name
        self.hooks = hooks  # of its executor
        self.in_process = limits is not None  # runs in a process of its own
        self.memory_mb = limits.memory_mb if limits is not None else None
        self.cpu_seconds = limits.cpu_seconds if limits is not None else None
        self.function = function
        self.is_async = _is_async(name, function)  # a coroutine function
        self._signature: Signature | None = None

    @property
    def signature(self) -> Signature:
        """What it takes. Read when it is wanted: by then all types of its module are known.

        Raises:
            HandlerError: it takes what no run can give.
        """
        if self._signature is None:
            self._signature = Signature(self.name, self.function)
        return self._signature

    @property
    def stoppable(self) -> bool:
        """Whether something else than itself can end it; a thread cannot be ended."""
        return self.is_async or self.in_process

    def call(self, run: Run) -> Any:
        """Call the function; for an async one this only makes its coroutine."""
        signature = self.signature
        arguments = arguments_of(run)
        if signature.run_first:
            return self.function(run, **arguments)
        if signature.run_by_name:
            return self.function(**{signature.run_by_name: run}, **arguments)
        return self.function(**arguments)


class Handlers:
    """All handlers of a node. Complete before the node starts: its hello lists them."""

    def __init__(self) -> None:
        self._by_name: dict[str, Handler] = {}
        self._closed = False
        self.hooks = Hooks()
        self.jobs = JobDeclarations()
        self.declared: list[msgspec.Raw] = []  # the jobs as JSON, once closed
        self.pickled: PickledHandlers | None = (
            None  # those in processes, once closed; None: there are none
        )
        self.schemas: dict[str, msgspec.Raw] = {}  # of those that say what they take, once closed

    def add(self, name: str, function: HandlerFunction, limits: Limits | None = None) -> None:
        """Offer `function` under this name.

        Args:
            limits: It runs in a process of its own, which is held to these.

        Raises:
            HandlerError: bad or taken name, no function, or the node has started.
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
        self._by_name[name] = Handler(name, function, hooks=self.hooks, limits=limits)

    def add_hook(self, hooks: list[Any], hook: Callable[..., Any]) -> None:
        """Call `hook` with those of its kind.

        Raises:
            HandlerError: the node has started, or it is no function.
        """
        if self._closed:
            raise HandlerError("a hook comes too late: the executor has started")
        if not callable(hook):
            raise HandlerError(f"a hook is a function, not {hook!r}")
        hooks.append(hook)

    def declare(self, job: str, handler: str, fields: Mapping[str, Any]) -> None:
        """Propose a job to the admin.

        Raises:
            HandlerError: the node has started, the name is taken, or a field is wrong.
        """
        if self._closed:
            raise HandlerError(f"job {job!r} comes too late: the executor has started")
        self.jobs.add(job, handler, fields)

    def close(self) -> None:
        """Take no more: the node is about to say what it offers.

        Raises:
            HandlerError: a handler takes what no run can give, or a job has no handler here.
        """
        if self._closed:
            return
        self.declared = self.jobs.check(self._by_name)
        self.pickled = self._pickle()
        self.schemas = _within_limits(
            {handler.name: handler.signature.schema for handler in self._by_name.values()}
        )
        self._closed = True

    def _pickle(self) -> PickledHandlers | None:
        functions = {each.name: each.function for each in self._by_name.values() if each.in_process}
        if not functions:
            return None
        from .pickling import pickle_handlers

        return pickle_handlers(functions, self.hooks)

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
        one.hooks = self.hooks
        one._by_name[name] = self._by_name[name]
        return one

    @property
    def unstoppable(self) -> list[str]:
        """Names of the plain functions: once one runs, nothing but itself can end it."""
        return [handler.name for handler in self._by_name.values() if not handler.stoppable]

    def explain_unknown(self, name: str) -> str:
        """One sentence for a run whose handler is not here."""
        close = get_close_matches(name, self._by_name, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        return f"no handler {name!r} on this node{hint}; it has: {', '.join(self) or 'none'}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def _is_async(name: str, function: HandlerFunction) -> bool:
    if not callable(function):
        raise HandlerError(f"handler {name!r} is not a function")
    # An object with an async __call__ is as good as an async def.
    code = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise HandlerError(f"handler {name!r} is a generator; return a value instead of yielding")
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(code)


def _within_limits(schemas: dict[str, bytes | None]) -> dict[str, msgspec.Raw]:
    """What an admin takes of them. A handler goes without a form rather than not at all."""
    told: dict[str, msgspec.Raw] = {}
    room = MAX_SCHEMAS_BYTES
    for name, schema in schemas.items():
        if schema is None:
            continue
        if len(schema) > min(MAX_SCHEMA_BYTES, room):
            _logger.warning(
                "the parameters of handler %r are too much for a form: their schema has %d bytes, "
                "of at most %d, and %d for all handlers; they are checked here all the same",
                name,
                len(schema),
                MAX_SCHEMA_BYTES,
                MAX_SCHEMAS_BYTES,
            )
            continue
        room -= len(schema)
        told[name] = msgspec.Raw(schema)
    return told
