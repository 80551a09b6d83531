"""The key pair that signs proofs: one of the installation, in the table of settings."""

from __future__ import annotations

import json
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import setting

PROOF_KEY = "proof_key"  # name of the setting


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProofKey:
    """A key pair."""

    public: str  # base64
    private: str  # ciphertext
    created_at: int


def read_proof_key(conn: sa.Connection) -> StoredProofKey | None:
    """None: there is none yet."""
    value = conn.execute(
        sa.select(setting.c.value).where(setting.c.name == PROOF_KEY)
    ).scalar_one_or_none()
    return None if value is None else StoredProofKey(**json.loads(value))


def add_proof_key(conn: sa.Connection, key: StoredProofKey) -> None:
    """Of two at once, the loser meets a duplicate key, and its transaction is repeated."""
    conn.execute(sa.insert(setting).values(name=PROOF_KEY, value=_value(key)))


def encrypt_proof_key_anew(conn: sa.Connection, key: StoredProofKey, *, private: str) -> None:
    """Replace its ciphertext, unless somebody has replaced the key."""
    changed = StoredProofKey(public=key.public, private=private, created_at=key.created_at)
    conn.execute(
        sa.update(setting)
        .where(setting.c.name == PROOF_KEY, setting.c.value == _value(key))
        .values(value=_value(changed))
    )


def _value(key: StoredProofKey) -> str:
    return json.dumps({"public": key.public, "private": key.private, "created_at": key.created_at})
