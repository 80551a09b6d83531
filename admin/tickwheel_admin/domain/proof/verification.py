"""Whether the file of a proof is what was signed, and whether its sums agree; needs no admin."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tickwheel_admin.domain.proof.document import (
    ALGORITHM,
    PREFIX,
    PUBLIC_KEY_BYTES,
    VERSION,
    canonical_line,
    key_id_of,
)
from tickwheel_admin.domain.proof.fires import FireOutcome
from tickwheel_admin.domain.proof.sums import HOUR_MS, HourStatus, ProofSums, sums_from_dict

MAX_LINE_BYTES = 1 << 20


class ProofFault(StrEnum):
    """What is wrong with a file."""

    NO_PROOF = "no_proof"  # it is something else, or of a later version
    CUT = "cut"  # its end is missing
    OTHER_KEY = "other_key"  # it is signed with another key than the given one
    CHANGED = "changed"  # it is not what was signed
    SUMS = "sums"  # it is what was signed, and does not add up


class InvalidProof(Exception):
    """The file proves nothing; the text says why."""

    def __init__(self, fault: ProofFault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


@dataclass(slots=True, kw_only=True)
class VerifiedProof:
    """What a file that is genuine says."""

    header: dict[str, Any]
    key_id: str
    proven: ProofSums = field(default_factory=ProofSums)
    not_proven: ProofSums = field(default_factory=ProofSums)
    exceptions: int = 0
    without_run: int = 0  # instants of proven hours that are listed one by one


def read_public_key(text: str) -> bytes:
    """A public key as `tickwheel proof key` prints it: 32 bytes in base64.

    Raises:
        ValueError: it is none.
    """
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        raise ValueError("a public key is 32 bytes in base64") from None
    if len(key) != PUBLIC_KEY_BYTES:
        raise ValueError("a public key is 32 bytes in base64")
    return key


def verify(lines: Iterable[bytes], public_key: bytes) -> VerifiedProof:
    """Check the lines of a file, each with its end, against a public key.

    No line is looked into before the signature over all of them holds, but the first and the last.

    Args:
        lines: are read twice: a list, or a file that `verify_file` winds back.

    Raises:
        InvalidProof: in the order cut, other key, changed, sums.
    """
    digest, last, first = hashlib.sha256(), b"", b""
    for line in lines:
        if not first:
            first = line
        digest.update(last)
        last = line
    _check_signature(first, last, digest.digest(), public_key)
    return _Sums(lines, key_id=key_id_of(public_key)).check()


def _check_signature(first: bytes, last: bytes, digest: bytes, public_key: bytes) -> None:
    signature = _parsed(last)
    if signature.get("kind") != "signature":
        if _parsed(first).get("kind") != "proof":
            raise InvalidProof(ProofFault.NO_PROOF, "This file is no proof of Tickwheel.")
        raise InvalidProof(
            ProofFault.CUT,
            "The file is cut, or something was added: its last line is not the signature.",
        )
    if not last.endswith(b"\n"):
        raise InvalidProof(ProofFault.CUT, "The file is cut: its last line has no end.")
    if canonical_line(signature) != last or signature.get("algorithm") != ALGORITHM:
        raise InvalidProof(ProofFault.CHANGED, "The line with the signature was changed.")
    own = key_id_of(public_key)
    if signature.get("key_id") != own:
        raise InvalidProof(
            ProofFault.OTHER_KEY,
            f"The file names another key, {_shown(signature.get('key_id'))}; this one is {own}.",
        )
    if signature.get("sha256") != digest.hex():
        raise InvalidProof(
            ProofFault.CHANGED, "The file was changed: its content is not what was signed."
        )
    try:
        text = signature["signature"]
        signed = base64.b64decode(text, validate=True)
        if base64.b64encode(signed).decode() != text:
            raise ValueError(text)
        Ed25519PublicKey.from_public_bytes(public_key).verify(signed, PREFIX + digest)
    except (InvalidSignature, KeyError, TypeError, ValueError):
        raise InvalidProof(
            ProofFault.CHANGED, "The signature is not one of this key over this content."
        ) from None


class _Sums:
    """Adds up a file whose signature holds."""

    def __init__(self, lines: Iterable[bytes], *, key_id: str) -> None:
        self._lines = lines
        self._key_id = key_id
        self._told: Counter[str] = Counter()  # lines of runs since the last hour, by outcome
        self._missing = 0  # lines of missing instants since then
        self._without_run: Counter[str] = Counter()  # lines of them since then, by cause

    def check(self) -> VerifiedProof:
        found: VerifiedProof | None = None
        next_hour, is_whole = 0, False
        for line in self._lines:
            values = _parsed(line)
            kind = values.get("kind")
            try:
                if found is None:
                    found = VerifiedProof(header=_header(values), key_id=self._key_id)
                    next_hour = values["from_ms"]
                elif kind == "run":
                    self._count_run(values)
                    found.exceptions += 1
                elif kind == "difference":
                    self._missing += values["what"] == "missing"
                elif kind == "without_run":
                    self._without_run[values["cause"]] += 1
                elif kind == "hour":
                    if values["at_ms"] != next_hour:
                        raise _differs(f"an hour is missing before {values['at']}")
                    next_hour += HOUR_MS
                    self._add_hour(found, values)
                elif kind == "sums":
                    _check_totals(found, values)
                    is_whole = next_hour == found.header["until_ms"]
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise _differs(f"a line cannot be read ({type(error).__name__})") from None
        if found is None or not is_whole:
            raise _differs("hours or sums are missing")
        return found

    def _count_run(self, values: dict[str, Any]) -> None:
        self._told[FireOutcome(values["outcome"])] += 1
        self._told["late"] += values["late"] is True

    def _add_hour(self, found: VerifiedProof, values: dict[str, Any]) -> None:
        sums = sums_from_dict(values["sums"])
        at = values["at"]
        is_proven = HourStatus(values["status"]) is HourStatus.AUDITED
        if faults := sums.faults(proven=is_proven):
            raise _differs(f"{at}: {faults[0]}")
        for outcome in FireOutcome:
            if outcome is not FireOutcome.SUCCEEDED:
                _same(f"{at}: {outcome}", self._told[outcome], sums.outcomes[outcome])
        _same(f"{at}: late", self._told["late"], sums.late)
        _same(f"{at}: missing", self._missing, values["missing_listed"])
        listed = values.get("without_run_listed", {})  # files of before have none
        for cause in sorted({*listed, *self._without_run}):
            _same(f"{at}: without a run, {cause}", self._without_run[cause], listed.get(cause, 0))
        if is_proven:
            found.without_run += self._without_run.total()
        self._told.clear()
        self._without_run.clear()
        self._missing = 0
        (found.proven if is_proven else found.not_proven).add(sums)


def _header(values: dict[str, Any]) -> dict[str, Any]:
    if values.get("kind") != "proof" or values.get("version") != VERSION:
        raise InvalidProof(
            ProofFault.NO_PROOF, "This is no proof, or one of another version of Tickwheel."
        )
    return values


def _check_totals(found: VerifiedProof, values: dict[str, Any]) -> None:
    for name in ("proven", "not_proven"):
        own: ProofSums = getattr(found, name)
        if own.as_dict() != sums_from_dict(values[name]).as_dict():
            raise _differs(f"the hours do not add up to “{name}”")
    _same("exceptions", found.exceptions, values["exceptions"])


def _same(told: str, left: int, right: int) -> None:
    if left != right:
        raise _differs(f"{told}: {left} lines, and a sum of {right}")


def _differs(text: str) -> InvalidProof:
    return InvalidProof(ProofFault.SUMS, f"The signature holds, but the sums do not agree: {text}.")


def _parsed(line: bytes) -> dict[str, Any]:
    """An object; empty for what is none."""
    try:
        values = json.loads(line) if len(line) <= MAX_LINE_BYTES else {}
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _shown(value: object) -> str:
    return value if isinstance(value, str) and value.isalnum() and len(value) <= 64 else "unknown"
