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

from .declared_jobs import DeclaredWorkflow, JobDeclarations
from .hooks import Hooks
from .signature import Signature

if TYPE_CHECKING:
    from .pickling import PickledHandlers

_logger = logging.getLogger("tickwheel.executor")

# A handler: called with the run and its parameters by name; returns the run's result.
HandlerFunction = Callable[..., Any]

MAX_NAME_CHARS = 128
MAX_HANDLERS = 2_000  # an admin accepts no more in a hello


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one run in a separate process; None: no limit."""

    memory_mb: int | None = None  # MiB, on top of what the process has before the run
    cpu_seconds: float | None = None  # of all its threads


def limits_of(
    name: str, isolation: str | None, *, memory_mb: int | None, cpu_seconds: float | None
) -> Limits | None:
    """The limits of a handler with these settings; None: it runs in the node's process.

    Raises:
        HandlerError: unknown isolation, or an invalid limit.
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
    """One registered function."""

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
        self.in_process = limits is not None  # runs in a separate process
        self.memory_mb = limits.memory_mb if limits is not None else None
        self.cpu_seconds = limits.cpu_seconds if limits is not None else None
        self.function = function
        self.is_async = _is_async(name, function)  # a coroutine function
        self._signature: Signature | None = None

    @property
    def signature(self) -> Signature:
        """Its signature. Read lazily: by then all types of its module are defined.

        Raises:
            HandlerError: it needs arguments that no run can provide.
        """
        if self._signature is None:
            self._signature = Signature(self.name, self.function)
        return self._signature

    @property
    def stoppable(self) -> bool:
        """Whether it can be stopped from outside; a thread cannot."""
        return self.is_async or self.in_process

    def call(self, run: Run) -> Any:
        """Call the function; for an async one this only creates its coroutine."""
        signature = self.signature
        arguments = arguments_of(run)
        if signature.run_first:
            return self.function(run, **arguments)
        if signature.run_by_name:
            return self.function(**{signature.run_by_name: run}, **arguments)
        return self.function(**arguments)


class Handlers:
    """All handlers of a node. Complete when the node starts, because hello lists them."""

    def __init__(self) -> None:
        self._by_name: dict[str, Handler] = {}
        self._closed = False
        self.hooks = Hooks()
        self.jobs = JobDeclarations()
        self.declared: list[msgspec.Raw] = []  # the jobs as JSON, once closed
        self.pickled: PickledHandlers | None = None  # those in processes, once closed
        self.schemas: dict[str, msgspec.Raw] = {}  # of those that say what they take, once closed

    def add(self, name: str, function: HandlerFunction, limits: Limits | None = None) -> None:
        """Offer `function` under this name.

        Args:
            limits: Run it in a separate process, with these limits.

        Raises:
            HandlerError: invalid or taken name, not callable, or the node has started.
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
        """Add `hook` to the list of its kind.

        Raises:
            HandlerError: the node has started, or the hook is not callable.
        """
        if self._closed:
            raise HandlerError("a hook comes too late: the executor has started")
        if not callable(hook):
            raise HandlerError(f"a hook is a function, not {hook!r}")
        hooks.append(hook)

    def declare(self, job: str, handler: str, fields: Mapping[str, Any]) -> None:
        """Propose a job to the admin.

        Raises:
            HandlerError: the node has started, the name is taken, or a field is invalid.
        """
        if self._closed:
            raise HandlerError(f"job {job!r} comes too late: the executor has started")
        self.jobs.add(job, handler, fields)

    def declare_workflow(self, workflow: DeclaredWorkflow, fields: Mapping[str, Any]) -> None:
        """Propose a workflow to the admin; steps are added to it until the node starts.

        Raises:
            HandlerError: as `declare` does.
        """
        if self._closed:
            raise HandlerError(
                f"workflow {workflow.name!r} comes too late: the executor has started"
            )
        self.jobs.add_workflow(workflow, fields)

    def close(self) -> None:
        """Accept no more: the node is about to send its hello.

        Raises:
            HandlerError: an invalid signature, a job without a handler here, or a wrong workflow.
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

    def name_of(self, function: HandlerFunction) -> str:
        """The name under which a function is registered.

        Raises:
            HandlerError: it is not, or under several names.
        """
        names = [name for name, handler in self._by_name.items() if handler.function == function]
        if len(names) == 1:
            return names[0]
        shown = getattr(function, "__name__", repr(function))
        if names:
            raise HandlerError(
                f"{shown} is registered as {' and '.join(map(repr, names))}: give one of the names"
            )
        raise HandlerError(f"{shown} is no handler of this executor: decorate it with handler()")

    def only(self, *names: str) -> Handlers:
        """A new set with these handlers only; this one stays open.

        Raises:
            HandlerError: there is no such handler.
        """
        some = Handlers()
        some.hooks = self.hooks
        for name in names:
            if name not in self._by_name:
                raise HandlerError(self.explain_unknown(name))
            some._by_name[name] = self._by_name[name]
        return some

    @property
    def unstoppable(self) -> list[str]:
        """Names of the handlers that cannot be stopped from outside: plain functions in threads."""
        return [handler.name for handler in self._by_name.values() if not handler.stoppable]

    def explain_unknown(self, name: str) -> str:
        """One sentence for a run with an unknown handler."""
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
    """The schemas that an admin accepts; a handler with a larger one has no form."""
    accepted: dict[str, msgspec.Raw] = {}
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
        accepted[name] = msgspec.Raw(schema)
    return accepted
