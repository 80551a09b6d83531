"""What executors say, once it is known who they are."""

from __future__ import annotations

import asyncio
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
from tickwheel_admin.services.xxl_job.nodes import DatabaseUnavailable, XxlNodes
from tickwheel_admin.services.xxl_job.refusals import XxlRefusal, XxlRefusals
from tickwheel_admin.xxl_job import addresses
from tickwheel_admin.xxl_job.addresses import AddressGuard, ForbiddenAddress, InvalidAddress
from tickwheel_admin.xxl_job.callbacks import Callbacks, NotRecorded
from tickwheel_admin.xxl_job.dialects import Callback, Dialect, Registry
from tickwheel_admin.xxl_job.registrar import XxlRegistrar

log = structlog.get_logger(__name__)

REGISTRATIONS_PER_BATCH = 500
SHOWN_CHARS = 100  # of a name that somebody sent, in messages


class CallerRefused(Exception):
    """The caller may not do this; the message says why. `kind` names it in logs and audit."""

    def __init__(self, kind: str, message: str, *, executor_id: int | None = None) -> None:
        self.kind = kind
        self.executor_id = executor_id
        super().__init__(message)


class Inbound:
    """Used from the event loop's thread only."""

    def __init__(
        self,
        nodes: XxlNodes,
        registrar: XxlRegistrar,
        callbacks: Callbacks,
        guard: AddressGuard,
        refusals: XxlRefusals | None,
    ) -> None:
        """Wire it; without `refusals`, what is refused is only logged."""
        self._nodes = nodes
        self._refusals = refusals
        self._tasks: set[asyncio.Task[None]] = set()
        self._registrar = registrar
        self._callbacks = callbacks
        self._guard = guard
        self._registrations = Coalescer(self._register, limit=REGISTRATIONS_PER_BATCH)
        self._indexed: Mapping[int, XxlExecutor] | None = None
        self._by_token: dict[bytes, list[XxlExecutor]] = {}

    async def shown_by(self, token: str, app_name: str | None) -> Sequence[XxlExecutor]:
        """The executors for which the caller may speak: one token may be that of several.

        Raises:
            CallerRefused: there is none.
            NotRecorded: it may be one whose token this admin cannot read.
        """
        found = self._shown_by(token, app_name)
        if token and not found:
            await self._registrar.look_again()
            found = self._shown_by(token, app_name)
        if not found:
            if token:
                self._pass_on(self._registrar.unreadable)
            raise CallerRefused("token_wrong", "The access token is wrong.")
        return found

    def _shown_by(self, token: str, app_name: str | None) -> Sequence[XxlExecutor]:
        found = self._index().get(_digest(token), []) if token else []
        return [each for each in found if app_name in (None, each.app_name)]

    async def register(
        self,
        said: Registry,
        executors: Sequence[XxlExecutor],
        dialect: Dialect | None,
        client: ClientKind,
    ) -> None:
        """Note where an executor listens; raises CallerRefused."""
        executor = await self._named(said, executors)
        address = self._address(said, executor)
        if executor.addresses is not None:
            return  # its addresses are set by hand
        registration = Registration(executor_id=executor.id, address=address, client=client)
        if not await self._registrations.submit(registration):
            raise CallerRefused(
                "too_many_addresses",
                f"{executor.app_name} has {MAX_REGISTERED} addresses already; remove old ones on"
                " its page",
                executor_id=executor.id,
            )
        self._registrar.saw(executor.id, address, dialect)

    async def unregister(self, said: Registry, executors: Sequence[XxlExecutor]) -> None:
        """Forget where an executor listens; raises CallerRefused."""
        executor = await self._named(said, executors)
        if await self._nodes.unregister(executor.id, self._address(said, executor)):
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
        self._pass_on(taken.foreign_executors.intersection(self._registrar.unreadable))
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
        if self._refusals is None:
            return
        refusal = XxlRefusal(
            kind=refused.kind,
            message=str(refused),
            address=address,
            path=path,
            executor_id=refused.executor_id,
        )
        task = asyncio.create_task(self._audit(self._refusals, refusal), name="xxl-refusal")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _audit(self, refusals: XxlRefusals, refusal: XxlRefusal) -> None:
        try:
            await refusals.note(refusal)
        except DatabaseUnavailable:
            log.warning("xxl.refusal_unrecorded", kind=refusal.kind, address=refusal.address)

    def _address(self, said: Registry, executor: XxlExecutor) -> str:
        try:
            address = addresses.normalise(said.address)
            addresses.check_literal(self._guard, address)
        except InvalidAddress as error:
            raise CallerRefused("address_invalid", str(error), executor_id=executor.id) from None
        except ForbiddenAddress as error:
            raise CallerRefused("address_forbidden", str(error), executor_id=executor.id) from None
        return address

    def _pass_on(self, unreadable: Collection[int]) -> None:
        """Leave a request to an admin that can tell whether these executors' token was shown."""
        if unreadable:
            raise NotRecorded("access tokens cannot be read here")

    async def _named(self, said: Registry, shown: Sequence[XxlExecutor]) -> XxlExecutor:
        """The one that the caller names, of those whose token it has shown."""
        if all(each.app_name != said.app_name for each in shown):
            await self._registrar.look_again()
        token = shown[0].token
        known = None
        for each in self._registrar.executors.values():
            if each.app_name == said.app_name:
                if each.token == token:
                    return each
                known = each
        if known is None:
            self._pass_on(self._registrar.unreadable)
        name = said.app_name[:SHOWN_CHARS]
        if known is not None:
            raise CallerRefused(
                "foreign_app", f"That is not the access token of “{name}”.", executor_id=known.id
            )
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
