"""Files and directories of the spool, and how those of dead processes are read."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tickwheel_executor.attempt_key import Claim
from tickwheel_shared.protocol import Result

from . import record as spool_record

_logger = logging.getLogger("tickwheel.spool")

SUFFIX = ".results"
_KEPT_SUFFIX = ".unreadable"
_decoder = msgspec.json.Decoder(Result)


@dataclass(slots=True, eq=False)
class ProcessDirectory:
    """The directory of one process: ours, or one that we have taken over."""

    path: Path
    lock: int  # open file, locked
    segments: set[SpoolSegment] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class SpoolSegment:
    """One file of results."""

    path: Path
    home: ProcessDirectory
    claims: set[Claim] = field(default_factory=set)  # of its results without receipt
    is_kept: bool = False  # for inspection: it contains what this version cannot read

    def remove(self) -> None:
        """All its results have their receipts: delete it, or keep it under another name."""
        with suppress(FileNotFoundError):
            if self.is_kept:
                self.path.rename(_kept(self.path))
            else:
                self.path.unlink()


def read(path: Path) -> tuple[list[Result], bool]:
    """The results in a file, and whether to keep it for inspection; logs what is wrong.

    Raises:
        OSError: it cannot be read at all.
    """
    found = spool_record.unpack(path.read_bytes())
    results: list[Result] = []
    problems: list[str] = []
    if found.other_versions:
        problems.append(
            f"holds records of format {', '.join(sorted(found.other_versions))}, and this SDK "
            f"reads format {spool_record.VERSION}: give the file its name back and start the SDK "
            "that wrote it, to have them delivered"
        )
    if found.damaged_bytes:
        problems.append(f"is damaged: {found.damaged_bytes} bytes in it are no whole record")
    for payload in found.payloads:
        try:
            results.append(_decoder.decode(payload))
        except msgspec.DecodeError as error:
            problems.append(f"holds a result that cannot be read, of a newer SDK perhaps: {error}")
    for problem in problems:
        _logger.error(
            "%s %s. What can be read is delivered; then it is kept as %s",
            path,
            problem,
            _kept(path).name,
        )
    if found.torn_bytes and not found.other_versions:
        _logger.warning(
            "%s ends with a torn record (%d bytes): its process died, or its disk was full, before "
            "that result was written",
            path,
            found.torn_bytes,
        )
    return results, bool(problems)


def _kept(path: Path) -> Path:
    return path.with_suffix(_KEPT_SUFFIX)
