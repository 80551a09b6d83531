"""More admins over one database: how many times as many runs a second two and four do together."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.bench.scenarios.flood import Flood, cpu_of, flood_of, rate_of
from tests.bench.testbed.bed import Bed, made
from tests.bench.testbed.mixed_work import add_mixed_work
from tests.bench.testbed.processor_share import CannotHoldError, held_to
from tests.bench.testbed.queued_runs import Share
from tests.bench.testbed.quiet_bed import NodeCrowd

ADMINS = 4
NAMES = {1: "one", 2: "two", 4: "four"}  # of the numbers that are measured, in the figures
MOST_FREE = 2  # admins that are measured without a limit, too
EXECUTORS = 20
NODES_PER_EXECUTOR = 3
SLOTS = 100  # of a node
WARM_UP_RUNS = 2_000
SHARE = 0.15  # of a core; four such admins leave two cores enough for the database and the nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Medians of floods with one number of admins."""

    runs_per_second: int
    cpu_us_per_run: dict[str, int]
    ratio: float  # of the rate to that of one admin
    share_used: float | None  # of the processor time that the admins were let; 1: it was the limit


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralAdmins:
    """By number of admins."""

    runs: int  # of a flood
    share: float  # of one core, that each admin is held to
    held: dict[str, Rate] | None
    free: dict[str, Rate]  # floods that get all the processor time there is
    not_held_because: str | None


def several_admins(kind: str, *, runs: int, repeats: int) -> SeveralAdmins:
    """Flood four admins, then two of them, one, and after that two and four again.

    Every node is connected to all of them. Each admin is held to a share of a core: on a machine
    with few cores one admin, its database and its nodes use all of them, and another can only take
    from these; it is added where one admin's core is full and others are not.
    """
    with made(kind, nodes=0) as bed:
        for number in range(2, ADMINS + 1):
            bed.cluster.start_admin(f"admin-{number}")
        work = add_mixed_work(bed, executors=EXECUTORS, runs=runs)
        with NodeCrowd(
            ports=[admin.port for admin in bed.cluster.admins],
            nodes=EXECUTORS * NODES_PER_EXECUTOR,
            tokens=work.tokens,
            slots=SLOTS,
        ) as crowd:
            bed.crowd_pids.extend(crowd.pids)
            floods = _Floods(bed, work.shares(runs), warm_up=work.shares(WARM_UP_RUNS))
            for admins, count in course(repeats):
                _let_run(bed, crowd, admins)
                floods.measure(admins, count)
    return SeveralAdmins(
        runs=sum(share.runs for share in floods.shares),
        share=SHARE,
        held=_rates(floods.held, share=SHARE) if floods.held else None,
        free=_rates(floods.free, share=None),
        not_held_because=floods.not_held_because,
    )


def course(repeats: int) -> list[tuple[int, int]]:
    """Numbers of admins one after the other, and how many floods each time.

    What is compared with one admin is measured before and after it: a machine has its moods.
    """
    *more, one = sorted(NAMES, reverse=True)
    before, after = -(-repeats // 2), repeats // 2
    steps = [(n, before) for n in more] + [(one, repeats)] + [(n, after) for n in reversed(more)]
    return [(admins, count) for admins, count in steps if count]


class _Floods:
    """What was measured so far, by number of admins."""

    def __init__(self, bed: Bed, shares: Sequence[Share], *, warm_up: Sequence[Share]) -> None:
        self.shares = shares
        self.held: defaultdict[int, list[Flood]] = defaultdict(list)
        self.free: defaultdict[int, list[Flood]] = defaultdict(list)
        self.not_held_because: str | None = None
        self._bed = bed
        self._warm_up = warm_up

    def measure(self, admins: int, count: int) -> None:
        """Flood the admins that run, free if there are few of them, and then held."""
        self._bed.wait_until_calm()
        flood_of(self._bed, self._warm_up)
        if admins <= MOST_FREE:
            self.free[admins] += self._some(count)
        if self.not_held_because is None:
            try:
                self._hold_and_flood(admins, count)
            except CannotHoldError as error:
                self.not_held_because = str(error)

    def _hold_and_flood(self, admins: int, count: int) -> None:
        with ExitStack() as stack:
            for admin in self._bed.cluster.admins:
                if admin.process.is_running:
                    stack.enter_context(held_to(admin.process.pid, SHARE))
            flood_of(self._bed, self._warm_up)
            self.held[admins] += self._some(count)

    def _some(self, count: int) -> list[Flood]:
        return [flood_of(self._bed, self.shares) for _ in range(count)]


def _let_run(bed: Bed, crowd: NodeCrowd, wanted: int) -> None:
    """Stop or start admins until so many run, and every node is connected to all of these."""
    cluster = bed.cluster
    running = [admin for admin in cluster.admins if admin.process.is_running]
    for admin in running[wanted:]:
        admin.process.stop()
    busy = {admin.port for admin in running}
    idle = {admin.port: admin.name for admin in cluster.admins if admin.port not in busy}
    for port, name in list(idle.items())[: max(0, wanted - len(running))]:
        cluster.start_admin(name, port=port)
    crowd.wait_until_connected(admins=wanted)


def _rates(floods: dict[int, list[Flood]], *, share: float | None) -> dict[str, Rate]:
    return {
        NAMES[admins]: Rate(
            runs_per_second=rate_of(some),
            cpu_us_per_run=cpu_of(some),
            ratio=round(_median(some) / _median(floods[1]), 2),
            share_used=None if share is None else _share_used(some, share * admins),
        )
        for admins, some in sorted(floods.items())
    }


def _median(floods: Sequence[Flood]) -> float:
    return statistics.median(each.runs_per_second for each in floods)


def _share_used(floods: Sequence[Flood], cores: float) -> float:
    used = (each.cpu_seconds["admin"] / each.seconds / cores for each in floods)
    return round(statistics.median(used), 2)
