"""What names an attempt, and what names one claim of it."""

from __future__ import annotations

from tickwheel_shared.protocol import Cancel, Query, Result, ResultReceipt, RunRequest

Key = tuple[int, int]  # run, attempt
# Run, attempt, token. A database that was restored from a backup may hand out an attempt once more
# that this node, or a process before it, has met already: only the token tells the two apart.
Claim = tuple[int, int, str]


def key_of(message: RunRequest | Query | Cancel | Result) -> Key:
    """Which attempt it is about."""
    return message.run, message.attempt


def claim_of(message: RunRequest | Query | Cancel | Result | ResultReceipt) -> Claim:
    """Which claim it is about."""
    return message.run, message.attempt, message.token
