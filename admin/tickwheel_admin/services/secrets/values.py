"""Reads the values of secrets for the runs of a claim."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.services.secrets.purposes import purpose_of_secret
from tickwheel_admin.store.executors.secrets import USED_TO_MS, StoredSecret, read_secrets


def encrypt_secret(cipher: Cipher, executor_id: int, name: str, value: str) -> str:
    """What is stored of a value; raises Conflict secret_key.missing."""
    return cipher.encrypt(value, purpose=purpose_of_secret(executor_id, name))


def decrypt_secret(cipher: Cipher, stored: StoredSecret) -> str:
    """The value; raises SecretUnreadable."""
    purpose = purpose_of_secret(stored.executor_id, stored.name)
    return cipher.decrypt(stored.ciphertext, purpose=purpose)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretValues:
    """The secrets that a batch of runs names, as far as there are any."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)  # by name
    unreadable: Collection[str] = frozenset()  # names; with the keys that this admin has
    idle: Collection[str] = frozenset()  # names whose last use is not this hour


NO_SECRETS = SecretValues()


class SecretReader:
    """Reads and decrypts. Nothing is kept: a value takes some microseconds, once in a claim."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher

    def read(
        self, conn: sa.Connection, executor_id: int, names: Collection[str], *, now: int
    ) -> SecretValues:
        """The values of these secrets; one query, or none for no names."""
        if not names:
            return NO_SECRETS
        values: dict[str, str] = {}
        unreadable: set[str] = set()
        idle: set[str] = set()
        for stored in read_secrets(conn, executor_id, names):
            try:
                values[stored.name] = decrypt_secret(self._cipher, stored)
            # A broken key file must not stop runs that need no secret.
            except (SecretUnreadable, Conflict):
                unreadable.add(stored.name)
            if stored.last_used_at is None or stored.last_used_at <= now - USED_TO_MS:
                idle.add(stored.name)
        return SecretValues(values=values, unreadable=unreadable, idle=idle)
