"""Secrets of executors: set and deleted by who administers the executor, never read back."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.executors.secret import (
    MAX_SECRETS_OF_EXECUTOR,
    check_secret,
    is_secret_name,
)
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import JOBS, QUEUED, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.services.secrets.values import decrypt_secret, encrypt_secret
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors import secrets as store
from tickwheel_admin.store.executors.executors import StoredExecutor, get_executor
from tickwheel_admin.store.jobs.secret_uses import jobs_by_secret

MAX_NAMED = 5  # jobs that a refusal names


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretItem:
    """What people see of a secret: everything but its value."""

    name: str
    exists: bool  # False: jobs name it, and there is none
    readable: bool  # by this admin, with the keys that it has
    version: int  # 0: there is none
    created_at: int | None
    created_by: str
    updated_at: int | None  # when its value was set
    updated_by: str
    last_used_at: int | None  # to the hour; None: no run was given it yet
    jobs: tuple[tuple[int, str], ...]  # ids and names of the jobs that name it


class Secrets:
    """Use cases of secrets."""

    def __init__(self, store: Store, ids: Ids, events: Events, cipher: Cipher) -> None:
        self._store = store
        self._cipher = cipher
        self._audited = AuditedTransactions(store, ids, events)

    async def list(self, actor: Actor, executor_id: int) -> builtins.list[SecretItem]:
        """All of an executor, by name, and what its jobs name besides.

        Whoever edits the executor's jobs may see the names.
        """
        actor.require(Permission.DEVELOP, executor_id)
        return await self._store.read(self._read, executor_id)

    async def put(self, actor: Actor, executor_id: int, name: str, value: str) -> bool:
        """Set a value, or another one; whether the secret is new. Runs that wait for it go on.

        Raises:
            InvalidInput: on "name" or "value".
            Conflict: secret_key.missing; secret.too_many, beyond 500 of one executor.
        """
        actor.require(Permission.ADMINISTER, executor_id)
        check_secret(name, value)
        ciphertext = encrypt_secret(self._cipher, executor_id, name, value)

        def put(conn: sa.Connection, entry: AuditEntry) -> bool:
            executor = _lock(conn, executor_id)
            known = store.secret_names_of(conn, [executor_id])[executor_id]
            is_new = name not in known
            if is_new and len(known) >= MAX_SECRETS_OF_EXECUTOR:
                raise Conflict(
                    "secret.too_many",
                    "An executor has at most %(limit)d secrets.",
                    limit=MAX_SECRETS_OF_EXECUTOR,
                )
            write = store.add_secret if is_new else store.replace_secret
            write(
                conn,
                executor_id,
                name,
                ciphertext=ciphertext,
                by=actor.name,
                now=now_ms(conn),
            )
            action = "executor.secret_added" if is_new else "executor.secret_replaced"
            _note(entry, action, executor, name)
            return is_new

        return await self._audited.run(
            actor,
            put,
            JOBS,
            QUEUED,
            repeated=lambda noted: noted.action == "executor.secret_added",
        )

    async def delete(self, actor: Actor, executor_id: int, name: str) -> None:
        """Forget a secret that no job names.

        Raises:
            NotFound: there is none of this name.
            Conflict: secret.in_use, with the jobs that name it.
        """
        actor.require(Permission.ADMINISTER, executor_id)

        def delete(conn: sa.Connection, entry: AuditEntry) -> None:
            executor = _lock(conn, executor_id)
            if not is_secret_name(name) or not store.read_secrets(conn, executor_id, [name]):
                raise not_found()
            if jobs := jobs_by_secret(conn, executor_id, name).get(name, []):
                shown = ", ".join(f"“{job}”" for _, job in jobs[:MAX_NAMED])
                more = "" if len(jobs) <= MAX_NAMED else " …"
                raise Conflict(
                    "secret.in_use",
                    "The secret “%(name)s” is used by %(count)d jobs: %(jobs)s. Take it out of"
                    " their parameters first; or set another value.",
                    name=name,
                    count=len(jobs),
                    jobs=shown + more,
                )
            store.delete_secret(conn, executor_id, name)
            _note(entry, "executor.secret_deleted", executor, name)

        await self._audited.run(actor, delete, JOBS)

    def _read(self, conn: sa.Connection, executor_id: int) -> builtins.list[SecretItem]:
        if get_executor(conn, executor_id) is None:
            raise not_found()
        uses = jobs_by_secret(conn, executor_id)
        found = {each.name: each for each in store.read_secrets(conn, executor_id)}
        return [
            self._item(name, found.get(name), tuple(uses.get(name, ())))
            for name in sorted({*found, *uses})
        ]

    def _item(
        self, name: str, stored: store.StoredSecret | None, jobs: tuple[tuple[int, str], ...]
    ) -> SecretItem:
        return SecretItem(
            name=name,
            exists=stored is not None,
            readable=stored is not None and self._is_readable(stored),
            version=0 if stored is None else stored.version,
            created_at=None if stored is None else stored.created_at,
            created_by="" if stored is None else stored.created_by,
            updated_at=None if stored is None else stored.updated_at,
            updated_by="" if stored is None else stored.updated_by,
            last_used_at=None if stored is None else stored.last_used_at,
            jobs=jobs,
        )

    def _is_readable(self, stored: store.StoredSecret) -> bool:
        try:
            decrypt_secret(self._cipher, stored)
        except (SecretUnreadable, Conflict):  # Conflict: the key file is broken
            return False
        return True


def _lock(conn: sa.Connection, executor_id: int) -> StoredExecutor:
    executor = get_executor(conn, executor_id, lock=True)
    if executor is None:
        raise not_found()
    return executor


def _note(entry: AuditEntry, action: str, executor: StoredExecutor, secret: str) -> None:
    entry.write(action, executor.id, executor_id=executor.id, name=executor.name, secret=secret)
