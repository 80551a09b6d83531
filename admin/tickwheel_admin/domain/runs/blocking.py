"""What happens when a run is due while earlier ones of its job are still live (guarantee G8).

Pure decisions over what the claim transaction has read under the lock of the job's row. A *lane* is
what runs stand in line for: the job itself, or, for the shards of a serial job, one node of a
broadcast or one index of a cut run.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Blocking(StrEnum):
    """How a job deals with its own earlier runs."""

    PARALLEL = "parallel"  # all run side by side
    SERIAL = "serial"  # one after the other, in the order of their instants
    DISCARD_LATER = "discard_later"  # what is due meanwhile is skipped
    COVER_EARLY = "cover_early"  # the newest wins: the earlier ones are cancelled or skipped


class WhenCutOff(StrEnum):
    """What becomes of an attempt whose node hears from no admin, if its job is not parallel."""

    STOP = "stop"  # its node ends it after 12 s; it is lost after 15 s
    CONTINUE = "continue"  # it goes on and keeps its place, for `hold_lost_seconds` at most


class Verdict(StrEnum):
    """What the claim does with a due run."""

    START = "start"
    WAIT = "wait"  # parked until a place in its lane is free
    DISCARDED = "discarded"  # skipped: an earlier one is live
    COVERED = "covered"  # skipped: a newer one waits
    TOO_MANY_WAITING = "too_many_waiting"  # skipped: `max_waiting` others wait already


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingPolicy:
    """The part of a job's configuration that says what may run side by side."""

    strategy: Blocking = Blocking.PARALLEL
    concurrency: int = 1  # 1..1000: how many live runs count as "still running"
    max_waiting: int | None = None  # 0..100,000, serial only: further ones are skipped
    when_cut_off: WhenCutOff = WhenCutOff.STOP
    hold_lost_ms: int = 600_000  # 15,000..604,800,000: longest that `continue` keeps a place


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A run of the job that has not ended, as the decision needs it."""

    run_id: int
    lane: Hashable
    scheduled_at: int
    started: bool  # some attempt of it started already, so its turn has come
    ready: bool  # due, parked, or handed back by a node
    parked: bool = False  # waits for an earlier run to end
    tries_again: bool = False  # started before, and its next try is due now

    @property
    def order(self) -> tuple[int, int]:
        """Runs of a lane take turns by instant."""
        return self.scheduled_at, self.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Everything of one job that stands in the way."""

    live: Mapping[Hashable, Sequence[Standing]]  # lane -> live runs
    waiting: Mapping[Hashable, Sequence[Standing]]  # lane -> queued runs, in their order


def decide(policy: BlockingPolicy, run: Standing, lanes: Lanes) -> Verdict:
    """What a due run may do, given what is live and what waits beside it."""
    live = len(lanes.live.get(run.lane, ()))
    free = policy.concurrency - live
    others = [
        each for each in lanes.waiting.get(run.lane, ()) if each.ready and each.run_id != run.run_id
    ]
    # A retry's turn has come before: it neither waits for older ones nor is skipped for them.
    before = sum(1 for each in others if not each.started and each.order < run.order)
    if run.started:
        before = 0
    match policy.strategy:
        case Blocking.PARALLEL:
            return Verdict.START
        case Blocking.SERIAL:
            if not run.started:  # or one that is looked at before a retry would pass an older one
                before += sum(1 for each in others if each.tries_again)
            if before < free:
                return Verdict.START
            limit = policy.max_waiting
            if limit is not None and not run.started and before - max(free, 0) >= limit:
                return Verdict.TOO_MANY_WAITING
            return Verdict.WAIT
        case Blocking.DISCARD_LATER:
            if before < free:
                return Verdict.START
            return Verdict.WAIT if run.started else Verdict.DISCARDED
        case Blocking.COVER_EARLY:
            # A late retry, or a missed fire that is made up for, may be older than what is live.
            beside = [*others, *lanes.live.get(run.lane, ())]
            newer = sum(1 for each in beside if each.order > run.order)
            if newer >= policy.concurrency:
                return Verdict.COVERED
            return Verdict.START if free > 0 else Verdict.WAIT


def to_cover(policy: BlockingPolicy, lane: Hashable, lanes: Lanes) -> Sequence[int]:
    """The live runs of a `cover_early` job that must end for newer ones, oldest first."""
    live = sorted(lanes.live.get(lane, ()), key=lambda each: each.order)
    ready = [each for each in lanes.waiting.get(lane, ()) if each.ready]
    newest = sorted([*live, *ready], key=lambda each: each.order)[-policy.concurrency :]
    return [each.run_id for each in live if each not in newest]
