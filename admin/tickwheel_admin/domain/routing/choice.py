"""Why a node was chosen, as it is kept with every attempt: a short JSON array in `run.choice`."""

from __future__ import annotations

from enum import StrEnum

import msgspec

MAX_PASSED_OVER = 3  # named ones; the others are counted
MAX_TEXT_CHARS = 40  # of a name or a hashed value

CHOSEN = "chosen"  # a person chose this node for this run
ONLY = "only"  # no other node could take it


class Why(StrEnum):
    """Why a node was passed over."""

    CORDONED = "cordoned"
    DRAINING = "draining"
    FULL = "full"
    REFUSED = "refused"  # the handler, a moment ago
    CUT_OFF = "cut_off"  # no admin has a socket to it
    BUSY = "busy"  # with a run of the same job, which `busy_over` avoids


class PassedOver(msgspec.Struct, frozen=True, array_like=True):
    """A node that would have been asked otherwise."""

    node: str  # name, cut to MAX_TEXT_CHARS
    why: Why


class Choice(msgspec.Struct, frozen=True, array_like=True):
    """Why one attempt's node was chosen."""

    by: str  # a Routing's value, or CHOSEN, or ONLY
    candidates: int  # nodes that could have been chosen
    used: int  # slots of the chosen one that were taken, without this attempt
    slots: int  # that it had
    passed: tuple[PassedOver, ...] = ()  # at most MAX_PASSED_OVER
    more_passed: int = 0  # further ones
    # What the strategy went by: values of `Strategy.detail`, or none of them.
    detail: tuple[int | str, ...] = ()

    def to_json(self) -> str:
        """The stored form."""
        return _encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Choice:
        """What `to_json` gave; raises msgspec.DecodeError for anything else."""
        return _decode(text)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Choice).decode


def choice_of(text: str | None) -> Choice | None:
    """The stored reason; None when there is none, or only a newer version can read it."""
    try:
        return None if text is None else Choice.from_json(text)
    except msgspec.DecodeError:
        return None


def short(text: str) -> str:
    """A name or value as a choice keeps it."""
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "…"
