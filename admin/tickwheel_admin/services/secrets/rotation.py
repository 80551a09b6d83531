"""Encrypts everything anew with the first key, so that older keys can be taken away.

While it goes on, everything is readable: each value is replaced by itself under another key, unless
somebody sets another one meanwhile. Interrupted, it goes on where it stopped when it is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.admin_status import status_from_json
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.services.secrets.purposes import (
    PURPOSE_OF_PROOF_KEY,
    purpose_of_channel,
    purpose_of_secret,
    purpose_of_xxl_token,
)
from tickwheel_admin.store.alarms.channels import encrypt_channel_anew, list_channels
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.admins import live_admin_statuses
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.executors.secrets import encrypt_secret_anew, page_secrets
from tickwheel_admin.store.proof.keys import encrypt_proof_key_anew, read_proof_key
from tickwheel_admin.store.xxl_job.executors import encrypt_token_anew, read_xxl_executors

BATCH = 100  # secrets of one transaction
MAX_CHANNELS = 10_000
PROOF_KEY_NAME = "key that signs proofs"


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationReport:
    """What became of what is stored."""

    key_id: str  # of the first key
    anew: int  # encrypted with it just now
    kept: int  # were encrypted with it before
    unreadable: Sequence[str]  # no key of this program decrypts these: “billing: API_KEY”
    # Admins that are up and encrypt with another key: what is set there needs that key again.
    behind: Mapping[str, str]  # id of that key, by name of the admin
    not_known: Sequence[str]  # names of admins that are up and do not tell which keys they have


@dataclass(slots=True, kw_only=True)
class _Counts:
    anew: int = 0
    kept: int = 0


class KeyRotation:
    """Use case of whoever has the keys: run by the command line, beside admins that go on."""

    def __init__(self, store: Store, ids: Ids, cipher: Cipher) -> None:
        self._store = store
        self._cipher = cipher
        self._audited = AuditedTransactions(store, ids)

    async def rotate(
        self,
        actor: Actor,
        told: Callable[[int], None] = lambda done: None,
        *,
        trusts_all: bool = False,
    ) -> RotationReport:
        """Encrypt what another key than the first one has encrypted.

        Args:
            told: is called after each transaction, with how many values were looked at.
            trusts_all: admins that do not tell which keys they have are taken to have the first.

        Raises:
            Conflict: secret_key.missing; secret_key.unknown, when an admin that is up does not have
                the first key: it could not read what is encrypted with it; secret_key.not_told,
                when it is not known whether one has it.
        """
        actor.require(Permission.ADMINISTER)
        key_id = self._cipher.current_key()
        keys = await self._store.read(_keys_of_admins)
        without = sorted(
            name for name, ids in keys.items() if ids is not None and key_id not in ids
        )
        if without:
            raise Conflict(
                "secret_key.unknown",
                "These admins do not have the key %(key)s: %(admins)s. Add it to their"
                " TICKWHEEL_SECRET_KEY, behind the others, and restart them first.",
                key=key_id,
                admins=", ".join(without),
            )
        not_known = _not_known(keys)
        if not_known and not trusts_all:
            raise Conflict(
                "secret_key.not_told",
                "These admins do not tell which keys they have: %(admins)s. They were started a"
                " moment ago, or are of an earlier version. Wait a few seconds, or restart them"
                " with this version. If you are sure that they have the key %(key)s, add --force.",
                key=key_id,
                admins=", ".join(not_known),
            )
        counts, unreadable = _Counts(), list[tuple[int, str]]()
        after = (0, "")
        while True:
            page = await self._store.run(self._secrets_behind, after)
            counts.anew, counts.kept = counts.anew + page.anew, counts.kept + page.kept
            unreadable += page.unreadable
            told(counts.anew + counts.kept + len(unreadable))
            if page.last is None:
                break
            after = page.last
        tokens = await self._store.run(self._tokens)
        counts.anew, counts.kept = counts.anew + tokens.anew, counts.kept + tokens.kept
        unreadable += tokens.unreadable
        others = await self._store.run(self._channels)
        counts.anew, counts.kept = counts.anew + others.anew, counts.kept + others.kept
        proof_key = await self._store.run(self._proof_key)
        counts.anew, counts.kept = counts.anew + proof_key.anew, counts.kept + proof_key.kept
        others.unreadable += proof_key.unreadable
        told(counts.anew + counts.kept + len(unreadable) + len(others.unreadable))
        keys = await self._store.read(_keys_of_admins)
        names = await self._store.read(executor_names, {each for each, _ in unreadable})
        report = RotationReport(
            key_id=key_id,
            anew=counts.anew,
            kept=counts.kept,
            unreadable=[
                *(f"{names.get(each, each)}: {what}" for each, what in unreadable),
                *(what for _, what in others.unreadable),
            ],
            behind={name: ids[0] for name, ids in sorted(keys.items()) if ids and ids[0] != key_id},
            not_known=_not_known(keys),
        )

        def note(_conn: sa.Connection, entry: AuditEntry) -> None:
            entry.write("secret_key.rotated", key=key_id, done=report.anew)

        if report.anew:
            await self._audited.run(actor, note)
        return report

    def _secrets_behind(self, conn: sa.Connection, after: tuple[int, str]) -> _Page:
        stored = page_secrets(conn, after=after, limit=BATCH)
        page = _Page(
            last=(stored[-1].executor_id, stored[-1].name) if len(stored) == BATCH else None
        )
        for each in stored:
            purpose = purpose_of_secret(each.executor_id, each.name)
            ciphertext = page.look_at(
                self._cipher, each.ciphertext, purpose, (each.executor_id, each.name)
            )
            if ciphertext is not None:
                encrypt_secret_anew(conn, each, ciphertext=ciphertext)
        return page

    def _tokens(self, conn: sa.Connection) -> _Page:
        page = _Page(last=None)
        for each in read_xxl_executors(conn):
            purpose = purpose_of_xxl_token(each.executor_id)
            what = (each.executor_id, "access token")
            ciphertext = page.look_at(self._cipher, each.token, purpose, what)
            if ciphertext is not None:
                encrypt_token_anew(conn, each, token=ciphertext)
        return page

    def _channels(self, conn: sa.Connection) -> _Page:
        page = _Page(last=None)
        for each in list_channels(conn, limit=MAX_CHANNELS):
            if each.secrets is None:
                continue
            what = (0, f"channel {each.name}")
            purpose = purpose_of_channel(each.id)
            ciphertext = page.look_at(self._cipher, each.secrets, purpose, what)
            if ciphertext is not None:
                encrypt_channel_anew(conn, each, secrets=ciphertext)
        return page

    def _proof_key(self, conn: sa.Connection) -> _Page:
        page = _Page(last=None)
        if (key := read_proof_key(conn)) is not None:
            what = (0, PROOF_KEY_NAME)
            private = page.look_at(self._cipher, key.private, PURPOSE_OF_PROOF_KEY, what)
            if private is not None:
                encrypt_proof_key_anew(conn, key, private=private)
        return page


class _Page:
    """What one transaction did."""

    def __init__(self, *, last: tuple[int, str] | None) -> None:
        self.last = last  # where the next one goes on; None: nowhere
        self.anew = 0
        self.kept = 0
        self.unreadable: list[tuple[int, str]] = []  # executor, and what of it

    def look_at(
        self, cipher: Cipher, stored: str, purpose: str, what: tuple[int, str]
    ) -> str | None:
        """The same under the first key; None: nothing is to be written."""
        if cipher.is_current(stored):
            self.kept += 1
            return None
        try:
            value = cipher.decrypt(stored, purpose=purpose)
        except SecretUnreadable:
            self.unreadable.append(what)
            return None
        self.anew += 1
        return cipher.encrypt(value, purpose=purpose)


def _keys_of_admins(conn: sa.Connection) -> dict[str, tuple[str, ...] | None]:
    """Ids of the keys of each admin that is up, the one that encrypts first; None: it does not tell
    them.
    """
    return {
        name: status_from_json(status).secret_keys for name, status in live_admin_statuses(conn)
    }


def _not_known(keys: Mapping[str, tuple[str, ...] | None]) -> list[str]:
    return sorted(name for name, ids in keys.items() if ids is None)
