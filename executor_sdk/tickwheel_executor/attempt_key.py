"""Keys of attempts, and of single claims of an attempt."""

from __future__ import annotations

from tickwheel_shared.protocol import Cancel, Query, Result, ResultReceipt, RunRequest

Key = tuple[int, int]  # run, attempt
# Run, attempt, token. A database that was restored from a backup may claim an attempt again that
# this node, or a process before it, knows already: only the token distinguishes the two.
Claim = tuple[int, int, str]


def key_of(message: RunRequest | Query | Cancel | Result) -> Key:
    """The attempt that a message is about."""
    return message.run, message.attempt


def claim_of(message: RunRequest | Query | Cancel | Result | ResultReceipt) -> Claim:
    """The claim that a message is about."""
    return message.run, message.attempt, message.token
