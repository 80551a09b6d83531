"""A proof as a file: lines of canonical JSON, the last of which signs all before it.

What is signed is the SHA-256 of every byte before the last line, behind a prefix that no other
signature of Tickwheel has. The key is an Ed25519 key pair of the installation.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VERSION = 1
ALGORITHM = "ed25519"
PREFIX = b"tickwheel proof 1\n"
PUBLIC_KEY_BYTES = 32


def canonical_line(values: Mapping[str, Any]) -> bytes:
    """One line: keys in order, no spaces, UTF-8. The same values are always the same bytes."""
    text = json.dumps(
        values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode() + b"\n"


def key_id_of(public_key: bytes) -> str:
    """Names a key: the beginning of its SHA-256."""
    return hashlib.sha256(b"tickwheel proof key " + public_key).hexdigest()[:16]


class ProofSigner:
    """Is given the lines as they are written, and signs them."""

    def __init__(self, private_key: Ed25519PrivateKey) -> None:
        self._key = private_key
        self._digest = hashlib.sha256()
        self.key_id = key_id_of(private_key.public_key().public_bytes_raw())

    def line(self, values: Mapping[str, Any]) -> bytes:
        """A line of the file."""
        written = canonical_line(values)
        self._digest.update(written)
        return written

    def signature(self) -> bytes:
        """The last line."""
        digest = self._digest.digest()
        return canonical_line(
            {
                "kind": "signature",
                "algorithm": ALGORITHM,
                "key_id": self.key_id,
                "sha256": digest.hex(),
                "signature": base64.b64encode(self._key.sign(PREFIX + digest)).decode(),
            }
        )
