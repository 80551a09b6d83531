"""From figures to families of series; how many there are does not depend on jobs or nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.services.metrics import definitions as metrics
from tickwheel_admin.services.metrics.definitions import OTHERS, Metric
from tickwheel_admin.services.metrics.figures import AdminFigures
from tickwheel_admin.services.metrics.meter import OTHER, ExecutorCounts, Totals
from tickwheel_admin.services.metrics.text import Family
from tickwheel_admin.store.database.facts import RepeatCause
from tickwheel_admin.store.overview.metric_figures import InstallationFigures

OUTCOMES = sorted(FINAL)
DELIVERY_OUTCOMES = ("delivered", "failed")
NODE_STATES = ("ready", "cordoned", "draining")


def named_executors(found: InstallationFigures, most: int) -> dict[int, str]:
    """Executors with series of their own: the oldest, so that each keeps its own."""
    return dict(list(found.executors.items())[:most])


def families(
    here: AdminFigures,
    totals: Totals,
    found: InstallationFigures | None,
    names: dict[int, str],
) -> Iterator[Family]:
    """Every family that there is something to say of.

    Args:
        found: None: the database does not answer.
        names: of executors with series of their own, by id.
    """
    yield from _of_this_admin(here, totals)
    yield _gauge(metrics.DATABASE_UP, int(found is not None))
    yield from _of_transactions(totals)
    yield from _of_runs(totals, names)
    if found is not None:
        yield from _of_jobs(totals, found)
        yield from _of_queues(found, names)
        yield from _of_nodes(found, names)
        yield from _of_pools(found)
        yield from _of_installation(found)


def _of_this_admin(here: AdminFigures, totals: Totals) -> Iterator[Family]:
    build = Family(metrics.BUILD_INFO)
    build.add((here.version, here.name, here.database), 1)
    yield build
    ages, intervals = Family(metrics.LOOP_AGE), Family(metrics.LOOP_INTERVAL)
    failing = Family(metrics.LOOP_FAILING)
    for loop in here.loops:
        ages.add((loop.name,), round(loop.age_seconds, 3))
        intervals.add((loop.name,), loop.interval_seconds)
        failing.add((loop.name,), int(loop.failing))
    yield from (ages, intervals, failing)
    yield _gauge(metrics.EVENT_LOOP_STALLS, here.stalls)
    yield _gauge(metrics.EVENT_LOOP_STALLED, here.stalled_seconds)
    yield _gauge(metrics.NODE_SESSIONS, here.sessions)
    yield _gauge(metrics.UNRECORDED, here.unrecorded)
    if here.clock_offset_ms is not None:
        yield _gauge(metrics.CLOCK_OFFSET, here.clock_offset_ms / 1000)
    if here.certificate_expires_at is not None:
        yield _gauge(metrics.CERTIFICATE_EXPIRES, here.certificate_expires_at / 1000)
    yield _gauge(metrics.LOG_BYTES, totals.log_bytes)
    attempts = Family(metrics.DELIVERY_ATTEMPTS)
    for outcome in DELIVERY_OUTCOMES:
        attempts.add((outcome,), totals.deliveries[outcome])
    yield attempts


def _of_transactions(totals: Totals) -> Iterator[Family]:
    seconds, failed = Family(metrics.TRANSACTION_SECONDS), Family(metrics.TRANSACTIONS_FAILED)
    for kind, counts in (("write", totals.writing), ("read", totals.reading)):
        seconds.add_histogram((kind,), counts.seconds)
        failed.add((kind,), counts.failed)
    repeats = Family(metrics.TRANSACTION_REPEATS)
    for cause in RepeatCause:
        repeats.add((cause,), totals.repeats[cause])
    batches = Family(metrics.BATCH_SIZE)
    for step, sizes in totals.batches.items():
        batches.add_histogram((step,), sizes)
    yield from (seconds, failed, repeats, batches)


def _of_runs(totals: Totals, names: dict[int, str]) -> Iterator[Family]:
    planned, claimed = Family(metrics.FIRES_PLANNED), Family(metrics.RUNS_CLAIMED)
    ended = Family(metrics.RUNS_ENDED)
    delays, durations = Family(metrics.START_DELAY), Family(metrics.RUN_DURATION)
    for executor_id, name in {**names, OTHER: OTHERS}.items():
        counts = totals.executors.get(executor_id) or ExecutorCounts()
        # At 0 from the first scrape on: else nobody would see the first failure increase anything.
        planned.add((name,), counts.planned)
        claimed.add((name,), counts.claimed)
        for outcome in OUTCOMES:
            ended.add((name, outcome), counts.ended[outcome])
        for family, histogram in ((delays, counts.delays), (durations, counts.durations)):
            if any(histogram.counts):
                family.add_histogram((name,), histogram)
    yield from (planned, claimed, ended, delays, durations)


def _of_jobs(totals: Totals, found: InstallationFigures) -> Iterator[Family]:
    ended, succeeded = Family(metrics.JOB_RUNS_ENDED), Family(metrics.JOB_LAST_SUCCESS)
    for job_id, names in found.jobs.items():
        counts = totals.jobs.get(job_id)
        if counts is None:
            continue
        for outcome in OUTCOMES:
            ended.add((*names, outcome), counts.ended[outcome])
        if counts.succeeded_at is not None:
            succeeded.add(names, counts.succeeded_at / 1000)
    yield from (ended, succeeded)


def _of_queues(found: InstallationFigures, names: dict[int, str]) -> Iterator[Family]:
    waiting: Counter[str] = Counter(dict.fromkeys(_labels(names), 0))
    since: dict[str, int] = {}
    for executor_id, queue in found.queues.items():
        label = names.get(executor_id, OTHERS)
        waiting[label] += queue.waiting
        since[label] = min(since.get(label, queue.since), queue.since)
    depths, ages = Family(metrics.QUEUED_RUNS), Family(metrics.QUEUE_AGE)
    for label, count in waiting.items():
        depths.add((label,), count)
        ages.add((label,), max(0, found.at - since.get(label, found.at)) / 1000)
    yield from (depths, ages)


def _of_nodes(found: InstallationFigures, names: dict[int, str]) -> Iterator[Family]:
    states: defaultdict[str, Counter[str]] = defaultdict(Counter)
    slots: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for each in found.nodes:
        label = names.get(each.executor_id, OTHERS)
        state = "draining" if each.draining else "cordoned" if each.cordoned else "ready"
        states[label][state] += each.nodes
        if state == "ready":
            slots[label] += each.slots
            used[label] += each.in_use
    nodes = Family(metrics.NODES)
    all_slots, used_slots = Family(metrics.SLOTS), Family(metrics.SLOTS_USED)
    for label in _labels(names):
        for state in NODE_STATES:
            nodes.add((label, state), states[label][state])
        all_slots.add((label,), slots[label])
        used_slots.add((label,), used[label])
    yield from (nodes, all_slots, used_slots)


def _of_pools(found: InstallationFigures) -> Iterator[Family]:
    slots, used = Family(metrics.POOL_SLOTS), Family(metrics.POOL_SLOTS_USED)
    for each in found.pools:
        slots.add((each.name,), each.slots)
        used.add((each.name,), each.in_use)
    yield from (slots, used)


def _of_installation(found: InstallationFigures) -> Iterator[Family]:
    yield _gauge(metrics.OVERDUE_TRIGGERS, found.overdue)
    for metric, counts in (
        (metrics.ADMINS, found.admins),
        (metrics.OPEN_ALARMS, found.alarms),
        (metrics.MESSAGES, found.messages),
        (metrics.AUDIT_DIFFERENCES, found.differences),
    ):
        family = Family(metric)
        for value, count in counts.items():
            family.add((value,), count)
        yield family
    due_at = found.at if found.message_due_at is None else found.message_due_at
    yield _gauge(metrics.MESSAGE_AGE, max(0, found.at - due_at) / 1000)
    if found.audited_to is not None:
        yield _gauge(metrics.AUDITED, found.audited_to / 1000)


def _labels(names: dict[int, str]) -> list[str]:
    return [*names.values(), OTHERS]


def _gauge(metric: Metric, value: float) -> Family:
    """A family of one series."""
    return Family(metric, [((), value)])
