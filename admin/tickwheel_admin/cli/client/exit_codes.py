"""What the exit code of a command says; docs/cli.md lists them for users."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
FAILED: Final = 1  # the admin refused it, or it could not be done
USAGE: Final = 2  # wrong usage or settings; argparse uses it, too
NOT_REACHED: Final = 3  # no admin answered
NOT_ALLOWED: Final = 4  # the token is missing, unknown, or may not do this
NOT_FOUND: Final = 5  # there is no such object, or the token may not see it
INTERRUPTED: Final = 130  # as shells count a Ctrl-C

# Of `run start --wait` and `run wait`: how the run ended.
BY_OUTCOME: Final = {
    "succeeded": 0,
    "failed": 10,
    "timed_out": 11,
    "cancelled": 12,
    "lost": 13,
    "skipped": 14,
}
NOT_ENDED: Final = 15  # it had not ended after --wait-timeout
