"""What a run failed with: the first line of its error, and one number for all errors alike.

Long numbers, hexadecimal ids and UUIDs differ with every failure, so "#" stands for them: runs that
failed alike share one line. Short numbers stay, and so do codes such as HTTP 503 or ORA-00942.
"""

from __future__ import annotations

import re
from hashlib import blake2b

import msgspec

from tickwheel_admin.domain.runs.run import FAILURES, Run

MAX_CHARS = 300
_MAX_READ = 2_000  # characters of a message

_VARYING = re.compile(
    r"""
      \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b  # a UUID
    | \b0x[0-9a-fA-F]{9,}\b                        # an address; codes have up to eight digits
    | \b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{12,}\b       # a hash or an id
    | (?<![\w.])[0-9]+\.[0-9]+(?!\w|\.[0-9])       # a decimal number, but no version or address
    | (?<!\w)(?<![A-Z]-)[0-9]{4,}(?!\w)            # a long number, not that of a code
    """,
    re.VERBOSE | re.ASCII,
)
_SPACES = re.compile(r"\s+")


class RunError(msgspec.Struct, frozen=True):
    """What runs of one executor that failed alike have in common."""

    id: int  # fingerprint of the executor and the text; fits 53 bits
    executor_id: int
    text: str  # 1 to MAX_CHARS characters


def alike(message: str) -> str:
    """The first line of an error, or a part of one, with "#" for what differs each time.

    At most MAX_CHARS characters; "" for a message without any.
    """
    lines = message[:_MAX_READ].strip().splitlines()
    if not lines:
        return ""
    return _VARYING.sub("#", _SPACES.sub(" ", lines[0]).strip())[:MAX_CHARS].rstrip()


def error_of(run: Run) -> RunError | None:
    """What a run failed with; None for one that has not, or without a word."""
    if run.state not in FAILURES or not run.message:
        return None
    text = alike(run.message)
    if not text:
        return None
    digest = blake2b(f"{run.executor_id} {text}".encode(errors="replace"), digest_size=8).digest()
    return RunError(
        id=int.from_bytes(digest) >> 11,  # 53 bits: JSON holds them exactly
        executor_id=run.executor_id,
        text=text,
    )
