"""The key pair that signs proofs: made once, the private half encrypted like other secrets."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.proof.document import ProofSigner, key_id_of
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.services.secrets.purposes import PURPOSE_OF_PROOF_KEY
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.proof.keys import StoredProofKey, add_proof_key, read_proof_key


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicProofKey:
    """What verifies the proofs of this installation."""

    key_id: str
    public_key: str  # 32 bytes in base64
    created_at: int


class ProofKeys:
    """Use cases of the key pair."""

    def __init__(self, store: Store, ids: Ids, cipher: Cipher) -> None:
        self._store = store
        self._cipher = cipher
        self._audited = AuditedTransactions(store, ids)

    async def create(self, actor: Actor) -> PublicProofKey:
        """Make the key pair, unless there is one; returns its public half.

        Raises:
            NotAllowed: the caller does not administer everything.
            Conflict: secret_key.missing.
        """
        actor.require(Permission.ADMINISTER)
        made = Ed25519PrivateKey.generate()
        public = base64.b64encode(made.public_key().public_bytes_raw()).decode()
        private = self._cipher.encrypt(
            base64.b64encode(made.private_bytes_raw()).decode(), purpose=PURPOSE_OF_PROOF_KEY
        )

        def keep(conn: sa.Connection, entry: AuditEntry) -> None:
            if read_proof_key(conn) is None:
                key = StoredProofKey(public=public, private=private, created_at=now_ms(conn))
                add_proof_key(conn, key)
                entry.write("proof_key.created", key=key_id_of(base64.b64decode(public)))

        await self._audited.run(actor, keep)
        return await self.public(actor)

    async def find(self, actor: Actor) -> PublicProofKey | None:
        """The public half; None: there is no key pair yet.

        Raises:
            NotAllowed: the caller sees no executor.
        """
        if not actor.may_anywhere(Permission.VIEW):
            actor.require(Permission.VIEW)
        stored = await self._store.read(read_proof_key)
        if stored is None:
            return None
        return PublicProofKey(
            key_id=key_id_of(base64.b64decode(stored.public)),
            public_key=stored.public,
            created_at=stored.created_at,
        )

    async def public(self, actor: Actor) -> PublicProofKey:
        """The public half.

        Raises:
            Conflict: proof_key.none.
        """
        found = await self.find(actor)
        if found is None:
            raise _none()
        return found

    async def signer(self) -> ProofSigner:
        """Signs one file.

        Raises:
            Conflict: proof_key.none; proof_key.unreadable, when no key of this admin decrypts it.
        """
        stored = await self._store.read(read_proof_key)
        if stored is None:
            raise _none()
        try:
            text = self._cipher.decrypt(stored.private, purpose=PURPOSE_OF_PROOF_KEY)
        except SecretUnreadable as error:
            raise Conflict(
                "proof_key.unreadable",
                "The key that signs proofs cannot be read: %(reason)s.",
                reason=str(error),
            ) from None
        return ProofSigner(Ed25519PrivateKey.from_private_bytes(base64.b64decode(text)))


def _none() -> Conflict:
    return Conflict(
        "proof_key.none",
        "There is no key that signs proofs yet. An administrator makes it once, with"
        " `tickwheel proof key --create`.",
    )
