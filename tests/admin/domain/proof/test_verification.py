"""A proof that was changed, cut, signed by somebody else, or does not add up, is not accepted."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tickwheel_admin.domain.proof.document import VERSION, ProofSigner, canonical_line
from tickwheel_admin.domain.proof.sums import HOUR_MS, ProofSums, sums_from_dict
from tickwheel_admin.domain.proof.verification import (
    InvalidProof,
    ProofFault,
    VerifiedProof,
    read_public_key,
    verify,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
PUBLIC = KEY.public_key().public_bytes_raw()
FROM = 1_800_000_000_000


def _sums(**changed: Any) -> dict[str, Any]:
    sums = ProofSums(hours=1, expected=4, audited_runs=3, missing=1, runs=3, late=1)
    sums.outcomes.update({"succeeded": 2, "failed": 1})
    return sums.as_dict() | changed


def _document(**of_hour: Any) -> list[dict[str, Any]]:
    hour = _sums(**of_hour)
    total = ProofSums()
    total.add(sums_from_dict(hour))
    return [
        {
            "kind": "proof", "version": VERSION, "from": "a", "from_ms": FROM, "until": "b",
            "until_ms": FROM + HOUR_MS, "made_at": "c", "executors": None,
        },
        {"kind": "failure", "id": 7, "text": "网关 refused"},
        {"kind": "run", "id": 1, "outcome": "failed", "late": False},
        {"kind": "run", "id": 2, "outcome": "succeeded", "late": True},
        {"kind": "difference", "what": "missing", "at": "x"},
        {"kind": "without_run", "at": "x", "cause": "missing"},
        {
            "kind": "hour", "at": "x", "at_ms": FROM, "status": "audited", "missing_listed": 1,
            "sums": hour, "without_run_listed": {"missing": 1},
        },
        {
            "kind": "sums", "proven": total.as_dict(), "not_proven": ProofSums().as_dict(),
            "exceptions": 2,
        },
    ]  # fmt: skip


def _signed(document: Sequence[dict[str, Any]], key: Ed25519PrivateKey = KEY) -> bytes:
    signer = ProofSigner(key)
    return b"".join([*(signer.line(each) for each in document), signer.signature()])


def _verify(file: bytes) -> VerifiedProof:
    return verify(file.splitlines(keepends=True), PUBLIC)


def _fault(file: bytes) -> ProofFault:
    with pytest.raises(InvalidProof) as raised:
        _verify(file)
    return raised.value.fault


def test_a_genuine_file_says_what_it_proves() -> None:
    found = _verify(_signed(_document()))
    assert (found.proven.expected, found.proven.missing, found.exceptions) == (4, 1, 2)
    assert (found.not_proven.hours, found.without_run) == (0, 1)
    assert found.header["from_ms"] == FROM


def test_each_byte_counts() -> None:
    file = _signed(_document())
    signature_at = file.rindex(b"\n", 0, -1) + 1
    for place in range(len(file)):
        changed = bytearray(file)
        changed[place] ^= 1
        fault = _fault(bytes(changed))
        if place < signature_at - 1:
            assert fault is ProofFault.CHANGED, place
        else:
            # Of the last line, its key and its kind have words of their own.
            assert fault in (ProofFault.CHANGED, ProofFault.OTHER_KEY, ProofFault.CUT), place


def test_each_cut_is_seen() -> None:
    file = _signed(_document())
    first = file.index(b"\n") + 1
    for length in range(first, len(file)):
        assert _fault(file[:length]) is ProofFault.CUT, length
    assert _fault(file + b"\n") is ProofFault.CUT
    assert _fault(file + file) in (ProofFault.CUT, ProofFault.CHANGED)


def test_a_line_that_is_left_out_or_moved_is_seen() -> None:
    lines = _signed(_document()).splitlines(keepends=True)
    for place in range(len(lines) - 1):
        assert _fault(b"".join(lines[:place] + lines[place + 1 :])) is ProofFault.CHANGED
    lines[2], lines[3] = lines[3], lines[2]
    assert _fault(b"".join(lines)) is ProofFault.CHANGED


def test_another_key_is_named() -> None:
    assert _fault(_signed(_document(), OTHER)) is ProofFault.OTHER_KEY
    # The right name over the signature of another key.
    lines = _signed(_document(), OTHER).splitlines(keepends=True)
    own = json.loads(_signed(_document()).splitlines()[-1])
    forged = json.loads(lines[-1]) | {"key_id": own["key_id"]}
    assert _fault(b"".join([*lines[:-1], canonical_line(forged)])) is ProofFault.CHANGED


def test_a_signature_in_other_words_is_refused() -> None:
    *lines, last = _signed(_document()).splitlines(keepends=True)
    spaced = json.dumps(json.loads(last)).encode() + b"\n"
    assert _fault(b"".join([*lines, spaced])) is ProofFault.CHANGED
    # Unused bits of base64 that are set say the same bytes.
    signature = json.loads(last)
    text = signature["signature"]
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    same = text[:-3] + alphabet[alphabet.index(text[-3]) | 1] + "=="
    assert same != text
    assert base64.b64decode(same) == base64.b64decode(text)
    changed = canonical_line(signature | {"signature": same})
    assert _fault(b"".join([*lines, changed])) is ProofFault.CHANGED


@pytest.mark.parametrize(
    "changed",
    [
        {"expected": 5},
        {"runs": 4},
        {"new": 1},
        {"gone": {"unknown": 1}},
        {"without_run": {"paused": 1}},
        {"outcomes": {"succeeded": 2, "failed": 1, "lost": 1}},
        {"outcomes": {"succeeded": 2, "skipped": 1}},
        {"late": 2},
        {"missing": 0, "expected": 3, "surplus": -1},
    ],
)
def test_sums_that_do_not_agree_are_seen_though_they_are_signed(changed: dict[str, Any]) -> None:
    document = _document()
    document[6]["sums"] |= changed
    assert _fault(_signed(document)) is ProofFault.SUMS


def test_nothing_is_known_of_an_hour_that_was_not_audited() -> None:
    document = _document()
    document[6]["status"] = "not_audited"
    document[7] |= {"proven": document[7]["not_proven"], "not_proven": document[7]["proven"]}
    assert _fault(_signed(document)) is ProofFault.SUMS
    for sums in (document[6]["sums"], document[7]["not_proven"]):
        sums |= {"expected": 0, "audited_runs": 0, "missing": 0}
    assert _verify(_signed(document)).not_proven.runs == 3


def test_lines_that_the_sums_do_not_know_are_seen() -> None:
    for place in (2, 3, 4, 5, 6, 7):
        document = _document()
        del document[place]
        assert _fault(_signed(document)) is ProofFault.SUMS, place
    document = _document()
    document[7]["exceptions"] = 3
    assert _fault(_signed(document)) is ProofFault.SUMS
    document = _document()
    document[7]["proven"]["hours"] = 2
    assert _fault(_signed(document)) is ProofFault.SUMS
    document = _document()
    document[0]["until_ms"] += HOUR_MS
    assert _fault(_signed(document)) is ProofFault.SUMS
    document = _document()
    document[6]["sums"] = "none"
    assert _fault(_signed(document)) is ProofFault.SUMS


def test_a_file_from_before_instants_were_listed_is_still_accepted() -> None:
    document = _document()
    del document[6]["without_run_listed"], document[5]
    assert _verify(_signed(document)).without_run == 0


def test_something_else_is_no_proof() -> None:
    for file in (b"", b"hello\n", b'{"kind":"hour"}\n', b"[" * 100_000, b"\xff\n"):
        assert _fault(file) is ProofFault.NO_PROOF
    later = _document()
    later[0]["version"] = VERSION + 1
    assert _fault(_signed(later)) is ProofFault.NO_PROOF


def test_keys_are_32_bytes_in_base64() -> None:
    text = base64.b64encode(PUBLIC).decode()
    assert read_public_key(f" {text}\n") == PUBLIC
    for wrong in ("", "x", text[4:], text + "!", "é"):
        with pytest.raises(ValueError, match="32 bytes"):
            read_public_key(wrong)
