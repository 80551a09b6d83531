"""What executors say, once it is known who they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from tickwheel_admin.domain.xxl_job.bridge import (
    MAX_REGISTERED,
    ClientKind,
    Registration,
    XxlExecutor,
)
from tickwheel_admin.engine.batching import Coalescer
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.xxl_job import addresses
from tickwheel_admin.xxl_job.addresses import AddressGuard
from tickwheel_admin.xxl_job.callbacks import Callbacks
from tickwheel_admin.xxl_job.dialects import Callback, Dialect, Registry
from tickwheel_admin.xxl_job.registrar import XxlRegistrar

log = structlog.get_logger(__name__)

REGISTRATIONS_PER_BATCH = 500
SHOWN_CHARS = 100  # of a name that somebody sent, in messages


class CallerRefused(Exception):
    """The caller may not do this; the message says why. `kind` names it in logs and audit."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class Inbound:
    """Used from the event loop's thread only."""

    def __init__(
        self,
        nodes: XxlNodes,
        registrar: XxlRegistrar,
        callbacks: Callbacks,
        guard: AddressGuard,
    ) -> None:
        self._nodes = nodes
        self._registrar = registrar
        self._callbacks = callbacks
        self._guard = guard
        self._registrations = Coalescer(self._register, limit=REGISTRATIONS_PER_BATCH)
        self._indexed: Mapping[int, XxlExecutor] | None = None
        self._by_token: dict[bytes, list[XxlExecutor]] = {}

    def shown_by(self, token: str, app_name: str | None) -> Sequence[XxlExecutor]:
        """The executors for which the caller may speak: one token may be that of several.

        Raises:
            CallerRefused: there is none.
        """
        found = self._index().get(_digest(token), [])
        if app_name is not None:
            found = [each for each in found if each.app_name == app_name]
        if not found or not token:
            raise CallerRefused("token_wrong", "The access token is wrong.")
        return found

    async def register(
        self,
        said: Registry,
        executors: Sequence[XxlExecutor],
        dialect: Dialect | None,
        client: ClientKind,
    ) -> None:
        """Note where an executor listens; raises CallerRefused, InvalidAddress."""
        executor = self._named(said, executors)
        address = addresses.normalise(said.address)
        self._guard.check_literal(address)
        if executor.addresses is not None:
            return  # its addresses are set by hand
        registration = Registration(executor_id=executor.id, address=address, client=client)
        if not await self._registrations.submit(registration):
            raise CallerRefused(
                "too_many_addresses",
                f"{executor.app_name} has {MAX_REGISTERED} addresses already; remove old ones on"
                " its page",
            )
        self._registrar.saw(executor.id, address, dialect)

    async def unregister(self, said: Registry, executors: Sequence[XxlExecutor]) -> None:
        """Forget where an executor listens; raises CallerRefused, InvalidAddress."""
        executor = self._named(said, executors)
        if await self._nodes.unregister(executor.id, addresses.normalise(said.address)):
            self._registrar.wake()

    async def report(
        self,
        callbacks: Sequence[Callback],
        executors: Collection[XxlExecutor],
        client: ClientKind,
        *,
        note: Callable[[CallerRefused], None],
    ) -> str:
        """Record ends of runs; returns what to tell.

        Whoever is told of a failure sends it again for ever, or reports something else instead. So
        unknown and foreign runs are none: Java even sends what another process on its machine left.

        Args:
            note: is given what was refused of it all the same.

        Raises:
            NotRecorded, DatabaseUnavailable: they are to be sent again.
        """
        ids = {each.id for each in executors}
        taken = await self._callbacks.take(callbacks, executors=ids, client=client)
        if taken.foreign:
            note(CallerRefused("foreign_run", "These runs belong to another executor."))
        told = []
        if taken.unknown:
            told.append(f"{taken.unknown} of runs that are not known (any more)")
        if taken.foreign:
            told.append(f"{taken.foreign} of runs of another executor")
        return f"ignored: {', '.join(told)}" if told else ""

    def note_refusal(self, refused: CallerRefused, *, address: str, path: str) -> None:
        """Somebody tried what he may not."""
        log.warning("xxl.refused", kind=refused.kind, address=address, path=path)

    def _named(self, said: Registry, executors: Sequence[XxlExecutor]) -> XxlExecutor:
        for each in executors:
            if each.app_name == said.app_name:
                return each
        known = any(each.app_name == said.app_name for each in self._registrar.executors.values())
        name = said.app_name[:SHOWN_CHARS]
        if known:
            raise CallerRefused("foreign_app", f"That is not the access token of “{name}”.")
        raise CallerRefused(
            "app_unknown", f"No executor with the app name “{name}” is set up here."
        )

    def _index(self) -> Mapping[bytes, list[XxlExecutor]]:
        executors = self._registrar.executors
        if executors is not self._indexed:
            self._indexed = executors
            self._by_token = {}
            for each in executors.values():
                self._by_token.setdefault(_digest(each.token), []).append(each)
        return self._by_token

    async def _register(self, registrations: Sequence[Registration]) -> list[bool]:
        return await self._nodes.register(registrations)


def _digest(token: str) -> bytes:
    """Tokens are looked up by this, so that the time of a comparison tells nothing of them."""
    return hashlib.sha256(token.encode(errors="replace")).digest()
