"""A second admin over one database: how many times as many runs a second both do together."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.bench.scenarios.flood import Flood, cpu_of, flood, rate_of
from tests.bench.testbed.bed import NODES, Bed, made
from tests.bench.testbed.processor_share import CannotHoldError, held_to
from tests.support.polling import wait_until

WARM_UP_RUNS = 2_000
SLOTS = 1_000  # of a node: twice the usual, so that both admins find some
SHARE = 0.3  # of a core; two such admins leave two cores enough for the database and the nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class OneAndTwo:
    """Medians of floods with one admin, and of those with two, before and after."""

    one_runs_per_second: int
    one_cpu_us_per_run: dict[str, int]
    runs_per_second: int
    cpu_us_per_run: dict[str, int]
    ratio: float  # of the two rates


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAdmins(OneAndTwo):
    """Floods in which the admins are the limit, not the processors of the machine."""

    share: float  # of one core, that each admin is held to


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoAdmins(OneAndTwo):
    """Floods that get all the processor time there is, and those of held admins."""

    held: HeldAdmins | None
    not_held_because: str | None


def two_admins(kind: str, *, runs: int, held_runs: int, repeats: int) -> TwoAdmins:
    """Flood two admins that both nodes are connected to, one of them alone, and both again.

    Then the same with each admin held to a share of a core. On a machine with few cores one admin,
    its database and its nodes use all of them, and a second admin can only take from the others;
    it is added where one admin's core is full and others are not.
    """
    held, reason = None, None
    with made(kind, nodes=0) as bed:
        first, second = bed.cluster.admins[0], bed.cluster.start_admin("admin-2")
        for number in range(1, NODES + 1):
            urls = f"{first.url},{second.url}"
            bed.cluster.start_node(f"node-{number}", slots=SLOTS, admins=urls)
        _wait_for_more_connections(bed, [1] * NODES)
        alone, together = _floods_of_both(bed, runs, repeats)
        try:
            held = _held(*_floods_of_both(bed, held_runs, repeats, share=SHARE))
        except CannotHoldError as error:
            reason = str(error)
    return TwoAdmins(
        one_runs_per_second=rate_of(alone),
        one_cpu_us_per_run=cpu_of(alone),
        runs_per_second=rate_of(together),
        cpu_us_per_run=cpu_of(together),
        ratio=_ratio(alone, together),
        held=held,
        not_held_because=reason,
    )


def _held(alone: Sequence[Flood], together: Sequence[Flood]) -> HeldAdmins:
    return HeldAdmins(
        share=SHARE,
        one_runs_per_second=rate_of(alone),
        one_cpu_us_per_run=cpu_of(alone),
        runs_per_second=rate_of(together),
        cpu_us_per_run=cpu_of(together),
        ratio=_ratio(alone, together),
    )


def _ratio(alone: Sequence[Flood], together: Sequence[Flood]) -> float:
    one, two = (
        statistics.median(each.runs_per_second for each in floods) for floods in (alone, together)
    )
    return round(two / one, 2)


def _floods_of_both(
    bed: Bed, runs: int, repeats: int, *, share: float | None = None
) -> tuple[list[Flood], list[Flood]]:
    """Floods of the first admin alone, and of both: one half before, the other after those."""
    second = bed.cluster.admins[-1]
    together = _floods(bed, runs, -(-repeats // 2), share)
    second.process.stop()
    connections = _connections(bed)
    alone = _floods(bed, runs, repeats, share)
    bed.cluster.start_admin("admin-2", port=second.port)
    _wait_for_more_connections(bed, connections)
    together += _floods(bed, runs, repeats - repeats // 2, share)
    return alone, together


def _floods(bed: Bed, runs: int, count: int, share: float | None) -> list[Flood]:
    """Floods of the admins that run, each held to the share; None: not held."""
    bed.wait_until_calm()
    with ExitStack() as stack:
        for admin in bed.cluster.admins:
            if share is not None and admin.process.is_running:
                stack.enter_context(held_to(admin.process.pid, share))
        flood(bed, job_id=bed.noop_job, runs=WARM_UP_RUNS)
        return [flood(bed, job_id=bed.noop_job, runs=runs) for _ in range(count)]


def _connections(bed: Bed) -> list[int]:
    """How often each node has been connected so far, to any admin."""
    return [node.process.output().count("connected to admin") for node in bed.cluster.nodes]


def _wait_for_more_connections(bed: Bed, before: Sequence[int]) -> None:
    wait_until(
        lambda: all(now > old for now, old in zip(_connections(bed), before, strict=True)),
        timeout_seconds=60,
        what="every node to be connected once more",
    )
