"""Encrypts secrets that must be read back, such as access tokens of XXL-JOB executors.

AES-256-GCM. What is stored is text: version, key id, and nonce with ciphertext in base64. The
purpose is authenticated, so that a value copied to another row cannot be read there.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tickwheel_admin.domain.errors import Conflict

KEY_BYTES = 32
_VERSION = "1"
_NONCE_BYTES = 12


class SecretUnreadable(Exception):
    """A stored secret that none of the keys decrypts; the message names no secret."""


class Cipher:
    """Encrypts with the first key; decrypts with each."""

    def __init__(self, keys: Sequence[bytes] = (), *, key_file: Path | None = None) -> None:
        """
        Args:
            keys: 32 bytes each.
            key_file: made with a random key when one is needed and none was given; an older file
                also decrypts. None: without keys nothing can be encrypted.
        """
        self._keys = {_id_of(key): AESGCM(key) for key in keys}
        self._current = _id_of(keys[0]) if keys else None
        self._key_file = key_file
        self._file_key: str | None = None  # its id, once it was read

    def check(self) -> None:
        """Whether anything can be encrypted.

        Raises:
            Conflict: secret_key.missing.
        """
        self._encrypting()

    def encrypt(self, secret: str, *, purpose: str) -> str:
        """What is to be stored.

        Args:
            purpose: whose it is, `xxl_executor.token 17`; the same to decrypt it.

        Raises:
            Conflict: secret_key.missing.
        """
        key_id, key = self._encrypting()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + key.encrypt(nonce, secret.encode(), purpose.encode())
        return f"{_VERSION}.{key_id}.{base64.b64encode(sealed).decode()}"

    def decrypt(self, stored: str, *, purpose: str) -> str:
        """The secret.

        Raises:
            SecretUnreadable: its key is not among the keys, or the value was changed.
        """
        version, _, rest = stored.partition(".")
        key_id, _, text = rest.partition(".")
        if version != _VERSION:
            raise SecretUnreadable("the secret was stored by another version of Tickwheel")
        if key_id not in self._keys:
            self._read_file()
        if key_id not in self._keys:
            raise SecretUnreadable(
                f"the secret was encrypted with the key {key_id}, which secret_key does not have"
            )
        try:
            sealed = base64.b64decode(text, validate=True)
            nonce, content = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
            return self._keys[key_id].decrypt(nonce, content, purpose.encode()).decode()
        except (ValueError, InvalidTag):
            raise SecretUnreadable("the stored secret was changed") from None

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of the keys that it has, the one that encrypts first; an id tells nothing of a key.

        The key of a file is among them as soon as there is one.
        """
        with contextlib.suppress(Conflict):  # a broken file is told to whoever needs its key
            self._read_file()
        return tuple(self._keys)

    def current_key(self) -> str:
        """The id of the key that encrypts; raises Conflict secret_key.missing."""
        return self._encrypting()[0]

    def is_current(self, stored: str) -> bool:
        """Whether the first key encrypted it."""
        return stored.split(".")[1:2] == [self._current]

    def _encrypting(self) -> tuple[str, AESGCM]:
        if self._current is None and self._key_file is not None:
            self._make_file(self._key_file)
            self._current = self._read_file()
        if self._current is None:
            raise Conflict(
                "secret_key.missing",
                "This needs a key that encrypts secrets in the database, and the admin has none."
                " Make one with `tickwheel secret-key`, set TICKWHEEL_SECRET_KEY to it for all"
                " admins, and restart them.",
            )
        return self._current, self._keys[self._current]

    def _read_file(self) -> str | None:
        """Add the key of the file; its id. None: there is no file."""
        if self._file_key is not None:
            return self._file_key
        if self._key_file is None or not self._key_file.exists():
            return None
        try:
            key = base64.b64decode(self._key_file.read_bytes())
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise Conflict(
                "secret_key.broken",
                "The file “%(file)s” does not have a key: 32 bytes in base64.",
                file=str(self._key_file),
            )
        self._file_key = _id_of(key)
        self._keys.setdefault(self._file_key, AESGCM(key))
        return self._file_key

    def _make_file(self, file: Path) -> None:
        if file.exists():
            return
        # Linked when it is complete, so that nobody reads half a key and none is replaced.
        made = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        opened = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(opened, "w") as writer:
                writer.write(new_key() + "\n")
                writer.flush()
                os.fsync(writer.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(made, file)
        finally:
            made.unlink()


def new_key() -> str:
    """A random key, as the setting takes it."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def _id_of(key: bytes) -> str:
    return hashlib.sha256(b"tickwheel key id " + key).hexdigest()[:8]
