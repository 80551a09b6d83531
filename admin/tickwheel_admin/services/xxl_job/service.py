"""Executors of the protocol `xxl_job`: adding them, and what may be changed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.executors.executor import Protocol, check_executor
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.executors.xxl_job import DEFAULT_TOKEN, XxlSettings, read_settings
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import NODES, QUEUED, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.executors.service import check_name_is_free
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.services.xxl_job.tokens import decrypt_token, encrypt_token
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import (
    StoredExecutor,
    add_executor,
    get_executor,
    get_node,
)
from tickwheel_admin.store.xxl_job import executors as store
from tickwheel_admin.store.xxl_job.executors import StoredXxlAddress, StoredXxlExecutor

MAX_SHOWN = 500  # addresses of one executor


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlExecutorView:
    """What people see of such an executor besides; never its token."""

    executor_id: int
    app_name: str
    addresses: tuple[str, ...] | None  # set by a person; None: its processes register themselves
    has_default_token: bool  # every copy of XXL-JOB comes with it
    token_is_unreadable: bool  # it was encrypted with a key that this admin does not have
    known: tuple[StoredXxlAddress, ...]  # those in use first; some, when there are many


class XxlExecutors:
    """Use cases of executors whose nodes speak XXL-JOB's protocol."""

    def __init__(self, store: Store, ids: Ids, events: Events, cipher: Cipher) -> None:
        self._store = store
        self._ids = ids
        self._cipher = cipher
        self._audited = AuditedTransactions(store, ids, events)

    async def get(self, actor: Actor, executor_id: int) -> XxlExecutorView:
        """One of them.

        Raises:
            Conflict: executor.other_protocol.
        """
        actor.require(Permission.VIEW, executor_id)
        return await self._store.read(self._read, executor_id)

    async def create(
        self,
        actor: Actor,
        *,
        name: str,
        description: str = "",
        app_name: str,
        token: str,
        addresses: Sequence[str] | None = None,
    ) -> int:
        """Add an executor; returns its id.

        Args:
            app_name: by which its processes register.
            token: what its processes have as xxl.job.accessToken; it is never shown again.
            addresses: URLs where they listen; None: they register themselves.

        Raises:
            InvalidInput: on "name", "description", "xxl_job.app_name", "xxl_job.token" or
                "xxl_job.addresses[…]".
            Conflict: executor.name_taken, executor.app_name_taken, secret_key.missing.
        """
        actor.require(Permission.ADMINISTER)
        name, description = name.strip(), description.replace("\r\n", "\n").strip()
        settings, problems = read_settings(app_name=app_name, token=token, addresses=addresses)
        try:
            check_executor(name, description)
        except InvalidInput as error:
            problems = [*error.problems, *problems]
        raise_if_any(problems)
        executor_id = await self._ids.take("executor")
        sealed = encrypt_token(self._cipher, executor_id, settings.token)

        def create(conn: sa.Connection, entry: AuditEntry) -> None:
            check_name_is_free(conn, name)
            _check_app_name(conn, settings.app_name)
            now = now_ms(conn)
            add_executor(
                conn,
                executor_id=executor_id,
                name=name,
                description=description,
                token_hash=f"xxl_job {executor_id}",  # no hash, so that nothing opens the door
                protocol=Protocol.XXL_JOB,
                now=now,
            )
            store.add_xxl_executor(
                conn,
                executor_id,
                app_name=settings.app_name,
                addresses=settings.addresses,
                token=sealed,
            )
            store.set_xxl_addresses(conn, executor_id, settings.addresses, now=now)
            entry.write(
                "executor.created",
                executor_id,
                executor_id=executor_id,
                name=name,
                protocol=Protocol.XXL_JOB.value,
                **_told(settings),
            )

        await self._audited.run(actor, create, NODES)
        return executor_id

    async def change(
        self,
        actor: Actor,
        executor_id: int,
        *,
        app_name: str | None = None,
        token: str | None = None,
        addresses: Sequence[str] | None = None,
        registers: bool = False,
    ) -> None:
        """Change what is given; the rest stays as it is.

        Args:
            token: replaces the one before at once.
            addresses: those that are used from now on, and no others.
            registers: True: processes register themselves instead.

        Raises:
            InvalidInput: as `create`.
            Conflict: executor.app_name_taken, secret_key.missing.
        """
        actor.require(Permission.ADMINISTER, executor_id)
        asked, problems = read_settings(
            app_name="unchanged" if app_name is None else app_name, token=token, addresses=addresses
        )
        raise_if_any(problems)
        sealed = None if token is None else encrypt_token(self._cipher, executor_id, token)

        def change(conn: sa.Connection, entry: AuditEntry) -> None:
            executor, old = _find(conn, executor_id, lock=True)
            new = old
            if app_name is not None:
                new = replace(new, app_name=asked.app_name)
            if addresses is not None or registers:
                new = replace(new, addresses=None if registers else asked.addresses)
            if new.app_name != old.app_name:
                _check_app_name(conn, new.app_name)
            if sealed is not None:
                new = replace(new, token=sealed)
            if new == old:
                return
            store.change_xxl_executor(
                conn,
                executor_id,
                app_name=new.app_name,
                addresses=new.addresses,
                token=new.token,
            )
            if new.addresses != old.addresses:
                store.set_xxl_addresses(conn, executor_id, new.addresses, now=now_ms(conn))
            changed = [
                what
                for what in ("app_name", "token", "addresses")
                if getattr(new, what) != getattr(old, what)
            ]
            told = _told(XxlSettings(app_name=new.app_name, token="", addresses=new.addresses))
            entry.write(
                "executor.xxl_changed",
                executor_id,
                executor_id=executor_id,
                name=executor.name,
                changed=changed,
                **told,
            )

        await self._audited.run(actor, change, NODES, QUEUED)

    async def remove_address(self, actor: Actor, executor_id: int, address: str) -> None:
        """Forget an address at which nobody answers any more.

        Raises:
            NotFound: it is not known.
            Conflict: executor.address_in_use.
        """
        actor.require(Permission.ADMINISTER, executor_id)

        def remove(conn: sa.Connection, entry: AuditEntry) -> None:
            executor, stored = _find(conn, executor_id, lock=True)
            known = {each.address: each for each in store.read_xxl_addresses(conn, [executor_id])}
            found = known.get(address)
            if found is None:
                raise not_found()
            if address in (stored.addresses or ()):
                raise Conflict(
                    "executor.address_in_use",
                    "This address is set by hand; take it out of the list of addresses.",
                )
            node = None if found.node_id is None else get_node(conn, found.node_id)
            if node is not None and node.node.state is NodeState.LIVE:
                raise Conflict(
                    "executor.address_in_use",
                    "A process answers at this address; stop it first.",
                )
            store.remove_xxl_address(conn, executor_id, address)
            entry.write(
                "executor.xxl_address_removed",
                executor_id,
                executor_id=executor_id,
                name=executor.name,
                address=address,
            )

        await self._audited.run(actor, remove, NODES)

    def _read(self, conn: sa.Connection, executor_id: int) -> XxlExecutorView:
        _executor, stored = _find(conn, executor_id)
        unreadable, token = False, ""
        try:
            token = decrypt_token(self._cipher, stored)
        except (SecretUnreadable, Conflict):
            unreadable = True
        known = store.read_xxl_addresses(conn, [executor_id])
        known.sort(key=lambda each: (each.removed_at is not None, each.address))
        return XxlExecutorView(
            executor_id=executor_id,
            app_name=stored.app_name,
            addresses=stored.addresses,
            has_default_token=token == DEFAULT_TOKEN,
            token_is_unreadable=unreadable,
            known=tuple(known[:MAX_SHOWN]),
        )


def _find(
    conn: sa.Connection, executor_id: int, *, lock: bool = False
) -> tuple[StoredExecutor, StoredXxlExecutor]:
    executor = get_executor(conn, executor_id, lock=lock)
    stored = store.get_xxl_executor(conn, executor_id)
    if executor is None:
        raise not_found()
    if stored is None:
        raise Conflict(
            "executor.other_protocol",
            "The nodes of “%(name)s” connect with the SDK; this is for executors of the protocol"
            " xxl_job.",
            name=executor.name,
        )
    return executor, stored


def _check_app_name(conn: sa.Connection, app_name: str) -> None:
    # The unique key decides: the loser of a race repeats its transaction and ends here.
    taken = store.xxl_executor_of_app(conn, app_name)
    if taken is not None:
        raise Conflict(
            "executor.app_name_taken",
            "The processes of “%(name)s” already register as “%(app_name)s”.",
            name=taken.name,
            app_name=app_name,
        )


def _told(settings: XxlSettings) -> dict[str, object]:
    """What the audit keeps; never the token."""
    addresses = settings.addresses
    return {
        "app_name": settings.app_name,
        "addresses": None if addresses is None else list(addresses),
    }
