"""Whether this program's keys decrypt what is stored: asked after a restore, and by `doctor`."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.services.secrets.purposes import (
    PURPOSE_OF_PROOF_KEY,
    purpose_of_channel,
    purpose_of_secret,
    purpose_of_xxl_token,
)
from tickwheel_admin.store.alarms.channels import list_channels
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.executors.secrets import page_secrets
from tickwheel_admin.store.proof.keys import read_proof_key
from tickwheel_admin.store.xxl_job.executors import read_xxl_executors

_PAGE = 500
_MAX_CHANNELS = 10_000


def unreadable_secrets(conn: sa.Connection, cipher: Cipher) -> list[str]:
    """What none of the keys decrypts: “billing: API_KEY”, “channel Ops”; in the order of ids."""
    found: list[tuple[int, str]] = []
    for executor_id, what, stored, purpose in _stored(conn):
        try:
            cipher.decrypt(stored, purpose=purpose)
        except SecretUnreadable:
            found.append((executor_id, what))
    names = executor_names(conn, {each for each, _ in found if each})
    return [f"{names.get(each, each)}: {what}" if each else what for each, what in found]


def _stored(conn: sa.Connection) -> Iterator[tuple[int, str, str, str]]:
    """Executor (0: none), what it is, ciphertext and purpose of everything that is encrypted."""
    after = (0, "")
    while page := page_secrets(conn, after=after, limit=_PAGE):
        for each in page:
            purpose = purpose_of_secret(each.executor_id, each.name)
            yield each.executor_id, each.name, each.ciphertext, purpose
        after = (page[-1].executor_id, page[-1].name)
    for token in read_xxl_executors(conn):
        purpose = purpose_of_xxl_token(token.executor_id)
        yield token.executor_id, "access token", token.token, purpose
    for channel in list_channels(conn, limit=_MAX_CHANNELS):
        if channel.secrets is not None:
            yield 0, f"channel {channel.name}", channel.secrets, purpose_of_channel(channel.id)
    if (key := read_proof_key(conn)) is not None:
        yield 0, "key that signs proofs", key.private, PURPOSE_OF_PROOF_KEY
