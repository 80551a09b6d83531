"""What the reason codes of runs mean, as English message ids for console and API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tickwheel_admin.domain.errors import Word

RESTORED = "restored"

# Codes that are missing here (blocked, cancelled, retry …) add nothing to the state of the run.
REASONS: Mapping[str, str] = {
    RESTORED: Word(
        "It had not ended when the backup was made from which it was restored; what became of it is"
        " not known."
    ),
    "node_lost": Word(
        "The node's lease ended before a result came; the attempt may have had effects."
    ),
    "timeout_not_enforced": Word("The node did not end the attempt in time."),
    "misfire": Word("The fire was missed and its trigger skips missed fires."),
    "full": Word("The node had no free slot after all."),
    "draining": Word("The node is shutting down."),
    "unknown_handler": Word("The node does not know this handler."),
    "spool_failed": Word("The node could not make results safe on its disk."),
    "unstorable": Word("The result could not be stored."),
    "never_seen": Word("The node never received the attempt."),
    "discarded": Word("An earlier run was still going on, and its job skips later ones."),
    "covered": Word("A newer run of the job took its place."),
    "too_many_waiting": Word("As many runs as its job allows were waiting already."),
    "expired": Word("It could not start within the time that its job allows."),
    "paused": Word("It was due while its executor, or everything, was paused."),
    "by_handler": Word("Its handler decided to skip it."),
    "spawned": Word("It handed items over, which are runs of their own."),
    "node_gone": Word("Its node is gone, and it may run nowhere else."),
    "released": Word("Released by an operator: the attempt may still be running on its node."),
    "cut_off": Word("Its node is cut off."),
    "cancel_unconfirmed": Word("Still running on its node."),
    "job_deleted": Word("Its job was deleted while it waited."),
    "steps": Word("Its steps say how it ended."),
    "stuck": Word("None of its steps runs or is about to, but some have not ended."),
    "defect": Word("What follows could not be computed."),
}

_SHARDS = re.compile(r"(?P<failed>[0-9]+) of (?P<all>[0-9]+) shards failed\.")
_STEPS = re.compile(r"Failed: (?P<steps>[^.]+?)(?: and (?P<n>[0-9]+) more)?\.")


def template_of_message(message: str) -> tuple[str, Mapping[str, Any]]:
    """The message id and the values of what an admin says of an end of a run.

    The ledger keeps what is said, in English. What a handler said is its own id, without values.
    """
    if found := _SHARDS.fullmatch(message):
        return Word("%(failed)s of %(all)s shards failed."), found.groupdict()
    if found := _STEPS.fullmatch(message):
        if found["n"] is None:
            return Word("Failed: %(steps)s."), {"steps": found["steps"]}
        return Word("Failed: %(steps)s and %(n)s more."), found.groupdict()
    return message, {}
