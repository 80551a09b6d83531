"""Which scripts a machine's owner lets run: any, those of known hashes, or signed ones."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tickwheel_executor.errors import ConfigurationError, Fail
from tickwheel_shared.protocol import RunScript as SourceOfScript

_HASH = re.compile(r"[0-9a-f]{64}\Z")
_KEY_BYTES = 32
_KEY = re.compile(r"[A-Za-z0-9+/]{43}=")  # which may begin with a slash, as a path does


class ScriptPins:
    """Checks the hash of every script, and whether it may run.

    Args:
        hashes_file: a file with one SHA-256 in hex on each line; read again when it changes. Text
            after a hash, and lines that begin with #, are remarks.
        public_keys: ed25519 keys, each as base64 of its 32 bytes, or as the absolute path of a PEM
            file.

    With neither, every script may run. With both, a script needs one of the two.

    Raises:
        ConfigurationError: lists every problem.
    """

    def __init__(self, hashes_file: str | None, public_keys: Sequence[str]) -> None:
        problems: list[str] = []
        self._path = Path(hashes_file) if hashes_file else None
        self._hashes: frozenset[str] = frozenset()
        self._stamp: tuple[int, int, int] | None = None
        if self._path is not None:
            try:
                self._read(self._path)
            except (OSError, ValueError) as error:
                problems.append(f"hashes_file: {self._path} cannot be read: {error}")
        self._keys = _keys(public_keys, problems)
        if problems:
            raise ConfigurationError(problems)

    def check(self, script: SourceOfScript) -> None:
        """Raise Fail unless this script may run."""
        found = hashlib.sha256(script.source.encode("utf-8", "surrogatepass")).hexdigest()
        if not hmac.compare_digest(found, script.sha256.lower()):
            raise Fail("the script's hash is not that of its text: it was changed on its way")
        if self._path is None and not self._keys:
            return
        if self._is_listed(found) or self._is_signed(script.language, found, script.signature):
            return
        rules = []
        if self._path is not None:
            rules.append(f"its hash {found} is not in {self._path}")
        if self._keys:
            what = "its signature is by none of the allowed keys" if script.signature else ""
            rules.append(what or "it is not signed (tickwheel script sign)")
        raise Fail(f"this machine's owner does not let this script run: {' and '.join(rules)}")

    def _is_listed(self, found: str) -> bool:
        if self._path is None:
            return False
        try:
            self._read(self._path)
        except (OSError, ValueError) as error:
            raise Fail(f"the allowed scripts of this machine cannot be read: {error}") from None
        return found in self._hashes

    def _read(self, path: Path) -> None:
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._stamp:
            return
        hashes = set()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            word = line.strip().partition(" ")[0].lower()
            if not word or word.startswith("#"):
                continue
            if not _HASH.match(word):
                raise ValueError(f"line {number}: a SHA-256 has 64 hex digits")
            hashes.add(word)
        self._hashes, self._stamp = frozenset(hashes), stamp

    def _is_signed(self, language: str, found: str, signature: str) -> bool:
        if not self._keys or not signature:
            return False
        from cryptography.exceptions import InvalidSignature

        try:
            sign = base64.b64decode(signature, validate=True)
        except (binascii.Error, ValueError):
            return False
        text = signed_text(language, found)
        for key in self._keys:
            try:
                key.verify(sign, text)
            except InvalidSignature:
                continue
            return True
        return False


def signed_text(language: str, sha256: str) -> bytes:
    """What a signature covers (PROTOCOL.md, 4)."""
    return f"tickwheel script 1\n{language}\n{sha256}\n".encode()


def _keys(texts: Sequence[str], problems: list[str]) -> list[Any]:
    if not texts:
        return []
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        problems.append(
            "public_keys: the library cryptography is missing; install it, or this package with "
            "its extra agent"
        )
        return []
    keys: list[Any] = []
    for text in texts:
        try:
            if text.startswith("/") and not _KEY.fullmatch(text):
                keys.append(_pem_key(text))
                continue
            data = base64.b64decode(text, validate=True)
            if len(data) != _KEY_BYTES:
                raise ValueError(f"it has {len(data)} bytes, not {_KEY_BYTES}")
            keys.append(Ed25519PublicKey.from_public_bytes(data))
        except (OSError, ValueError, TypeError) as error:
            problems.append(
                f"public_keys: {text!r} is no ed25519 key: {error}; write base64 of its 32 bytes, "
                "or the absolute path of a PEM file"
            )
    return keys


def _pem_key(path: str) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = load_pem_public_key(Path(os.fspath(path)).read_bytes())
    if not isinstance(key, Ed25519PublicKey):
        raise TypeError("it is a key of another kind")
    return key
