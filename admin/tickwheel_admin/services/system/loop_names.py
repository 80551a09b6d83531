"""What the background loops of an admin are for, in words for people."""

from __future__ import annotations

from collections.abc import Mapping

from tickwheel_admin.domain.errors import Word

_NAMES: Mapping[str, Word] = {
    "planner": Word("Planning fires"),
    "dispatcher": Word("Sending runs"),
    "recorder": Word("Recording results"),
    "sweeper": Word("Sweeping up"),
    "leases": Word("Renewing leases"),
    "refresher": Word("Following calendars"),
    "cleaner": Word("Cleaning"),
    "rollup": Word("Counting runs"),
    "herald": Word("Telling other admins"),
}


def loop_words(name: str) -> Word:
    """The words, as a message id; the name itself for a loop of another version's admin."""
    return _NAMES.get(name, Word(name))
