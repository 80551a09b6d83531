"""`tickwheel verify`: whether the file of a proof is genuine, and adds up. Needs no admin."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tickwheel_admin.cli.client import exit_codes
from tickwheel_admin.cli.client.output.words import visible
from tickwheel_admin.cli.failure import Failure
from tickwheel_admin.domain.proof.fires import FireOutcome
from tickwheel_admin.domain.proof.sums import ProofSums
from tickwheel_admin.domain.proof.verification import (
    MAX_LINE_BYTES,
    InvalidProof,
    ProofFault,
    VerifiedProof,
    read_public_key,
    verify,
)

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_CODES = {
    ProofFault.NO_PROOF: 2,
    ProofFault.CUT: 20,
    ProofFault.CHANGED: 21,
    ProofFault.OTHER_KEY: 22,
    ProofFault.SUMS: 23,
}
_MAX_KEY_FILE = 1_000  # bytes
_MORE = """\
The key is that of `tickwheel proof key`: get it once, and from the installation itself, not along
with the file. Nothing is asked of any server.

examples:
  tickwheel verify proof.ndjson --key 'k3Vm…='
  tickwheel verify proof.ndjson --key-file tickwheel-proof.pub

exit codes: 0 it is genuine and adds up, 2 it is no proof, or cannot be read, 20 it is cut,
21 it was changed, 22 it is signed with another key, 23 its sums do not agree.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "verify",
        help="whether the file of a proof is genuine, and adds up",
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="as `tickwheel proof export` wrote")
    key = parser.add_mutually_exclusive_group(required=True)
    key.add_argument("--key", metavar="KEY", help="the public key, 32 bytes in base64")
    key.add_argument("--key-file", metavar="FILE", type=Path, help="a file with it")
    parser.set_defaults(run=_verify)


def _verify(args: argparse.Namespace) -> int:
    key = _key(args)
    try:
        with args.file.open("rb") as file:
            found = verify(_Lines(file), key)
    except OSError as error:
        raise _failure(f"{args.file}: {error.strerror}", exit_codes.USAGE) from None
    except InvalidProof as error:
        raise _failure(f"{args.file}: {error}", _CODES[error.fault]) from None
    print(visible(_told(found), lines=True))
    return exit_codes.DONE


class _Lines:
    """The lines of a file, from its beginning each time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        # A line of a proof is shorter; of another file, no more is held at once.
        return iter(lambda: self._file.readline(MAX_LINE_BYTES + 1), b"")


def _key(args: argparse.Namespace) -> bytes:
    text = args.key
    if text is None:
        try:
            with args.key_file.open() as file:
                text = file.read(_MAX_KEY_FILE)
        except (OSError, UnicodeError):
            raise _failure(f"{args.key_file} cannot be read", exit_codes.USAGE) from None
    try:
        return read_public_key(text)
    except ValueError as error:
        raise _failure(str(error), exit_codes.USAGE) from None


def _told(found: VerifiedProof) -> str:
    header, proven, other = found.header, found.proven, found.not_proven
    whose = "all executors"
    if header["executors"] is not None:
        whose = f"{len(header['executors'])} executors"
    lines = [
        f"Genuine: signed with the key {found.key_id}, unchanged, and the sums agree.",
        f"It is about {whose}, {header['from']} to {header['until']}, as of {header['made_at']}.",
        f"{proven.hours} hours are proven: {_sums(proven)}",
    ]
    if other.hours:
        lines.append(
            f"{other.hours} hours are not: what should have run is not known of them."
            f" The ledger has {other.runs} runs: {_outcomes(other)}."
        )
    lines.append(f"{found.exceptions} runs are listed one by one.")
    if absent := proven.without_run.total() + proven.missing:
        lines.append(f"{found.without_run} of {absent} instants without a run are, too.")
    return "\n".join(lines)


def _sums(sums: ProofSums) -> str:
    parts = [f"{sums.expected} instants should have been"]
    if sums.surplus:
        parts.append(f"{sums.surplus} runs were not expected")
    parts.append(f"{sums.without_run.total()} were to bring no run")
    parts.append(f"{sums.missing} are missing")
    if sums.gone.total():
        parts.append(f"{sums.gone.total()} runs were deleted since")
    if sums.new:
        parts.append(f"{sums.new} runs came since")
    return f"{', '.join(parts)}; {sums.runs} runs: {_outcomes(sums)}."


def _outcomes(sums: ProofSums) -> str:
    told = [f"{sums.outcomes[each]} {each.value}" for each in FireOutcome if sums.outcomes[each]]
    return ", ".join(told) or "none"


def _failure(text: str, code: int) -> Failure:
    sys.stdout.flush()
    failure = Failure(visible(text, lines=True))
    failure.exit_code = code
    return failure
