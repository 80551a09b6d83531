"""Why a node was chosen: kept with every attempt, told as sentences.

Stored as a short JSON array with `run.choice`. The sentences are English message ids with their
params, so that console and API tell them in the reader's language.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from tickwheel_admin.domain.routing.policy import Routing

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
    BUSY = "busy"  # with a run of the same job, which `busy_over` avoids


class PassedOver(msgspec.Struct, frozen=True, array_like=True):
    """A node that would have been asked otherwise."""

    node: str  # name, cut to MAX_TEXT_CHARS
    why: Why


class Sentence(NamedTuple):
    """A message id with its params."""

    template: str
    params: dict[str, Any]


class Choice(msgspec.Struct, frozen=True, array_like=True):
    """Why one attempt's node was chosen."""

    by: str  # a Routing's value, or CHOSEN, or ONLY
    candidates: int  # nodes that could have been chosen
    used: int  # slots of the chosen one that were taken, without this attempt
    slots: int  # that it had
    passed: tuple[PassedOver, ...] = ()  # at most MAX_PASSED_OVER
    more_passed: int = 0  # further ones
    # What the strategy went by. round_robin: (place among the candidates, from 1); weighted: (its
    # weight, all weights); consistent_hash: (parameter, its value), () for the job;
    # least_frequently_used and least_recently_used: (runs of the job before), () for none;
    # failover: (place in the job's order, from 1), () when it is not in it.
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


def sentences(choice: Choice) -> tuple[Sentence, ...]:
    """The reason for people: first what decided, then who was passed over."""
    told = [_decisive(choice), *(_passed(each) for each in choice.passed)]
    if choice.more_passed:
        params = {"count": choice.more_passed}
        told.append(Sentence(template="Others passed over: %(count)d.", params=params))
    return tuple(told)


def _decisive(choice: Choice) -> Sentence:
    params: dict[str, Any] = {
        "nodes": choice.candidates,
        "used": choice.used,
        "slots": choice.slots,
    }
    detail = choice.detail
    if choice.by == CHOSEN:
        return Sentence(template="This node was chosen for this run.", params={})
    if choice.by == ONLY:
        return Sentence(
            template="The only node that could take it: %(used)d of %(slots)d slots used.",
            params=params,
        )
    match choice.by:
        case Routing.ROUND_ROBIN:
            return Sentence(
                template="Round robin: the turn of number %(turn)d of %(nodes)d nodes.",
                params=params | {"turn": _first(detail)},
            )
        case Routing.LEAST_BUSY:
            return Sentence(template="Least busy: %(used)d of %(slots)d slots used.", params=params)
        case Routing.RANDOM:
            return Sentence(template="Random: one of %(nodes)d nodes.", params=params)
        case Routing.WEIGHTED if len(detail) == 2:
            return Sentence(
                template="Weighted: its turn, with a weight of %(weight)d of %(total)d in all.",
                params=params | {"weight": detail[0], "total": detail[1]},
            )
        case Routing.CONSISTENT_HASH if len(detail) == 2:
            return Sentence(
                template="Consistent hash: the node for “%(parameter)s” = %(value)s.",
                params=params | {"parameter": detail[0], "value": detail[1]},
            )
        case Routing.CONSISTENT_HASH:
            return Sentence(template="Consistent hash: the node for this job.", params=params)
        case Routing.LEAST_FREQUENTLY_USED if not detail:
            return Sentence(
                template="Least frequently used: it has had no run of this job yet.",
                params=params,
            )
        case Routing.LEAST_FREQUENTLY_USED:
            return Sentence(
                template="Least frequently used: %(count)d runs of this job so far.",
                params=params | {"count": _first(detail)},
            )
        case Routing.LEAST_RECENTLY_USED if detail:
            return Sentence(
                template="Least recently used: its last run of this job is the longest ago.",
                params=params,
            )
        case Routing.LEAST_RECENTLY_USED:
            return Sentence(
                template="Least recently used: it has had no run of this job yet.", params=params
            )
        case Routing.FIRST:
            return Sentence(template="First: the first by name of %(nodes)d nodes.", params=params)
        case Routing.LAST:
            return Sentence(template="Last: the last by name of %(nodes)d nodes.", params=params)
        case Routing.FAILOVER if detail:
            return Sentence(
                template="Failover: number %(place)d in the job's order.",
                params=params | {"place": _first(detail)},
            )
        case Routing.FAILOVER:
            return Sentence(
                template="Failover: a node that stands in, for none of those named could take it.",
                params=params,
            )
        case Routing.BUSY_OVER:
            return Sentence(
                template="Busy over: the first by name that runs nothing of this job.",
                params=params,
            )
        case Routing.PINNED:
            return Sentence(
                template="Pinned: the least busy of its nodes, %(used)d of %(slots)d slots used.",
                params=params,
            )
        case Routing.SHARDS:
            return Sentence(
                template="A shard, for the least busy node: %(used)d of %(slots)d slots used.",
                params=params,
            )
        case Routing.BROADCAST:
            return Sentence(template="Broadcast: this shard is for this node.", params=params)
        case _:  # written by a newer version
            return Sentence(template="%(used)d of %(slots)d slots used.", params=params)


def _passed(passed: PassedOver) -> Sentence:
    params = {"node": passed.node}
    match passed.why:
        case Why.CORDONED:
            return Sentence(template="%(node)s was cordoned.", params=params)
        case Why.DRAINING:
            return Sentence(template="%(node)s was shutting down.", params=params)
        case Why.FULL:
            return Sentence(template="%(node)s had no free slot.", params=params)
        case Why.REFUSED:
            return Sentence(template="%(node)s had refused the handler.", params=params)
        case Why.BUSY:
            return Sentence(template="%(node)s was running this job.", params=params)


def _first(detail: tuple[int | str, ...]) -> int:
    return int(detail[0]) if detail else 0
