"""The rules of a job's runs as people write them: blocking, retries, children.

Each rule that makes sense only beside another one is refused with the reason when that one is
missing; its raw form is null there, which counts as not given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.fields import Fields, as_seconds
from tickwheel_admin.domain.jobs.children import MAX_CHILDREN, ChildLink, ChildOn
from tickwheel_admin.domain.pools.pool import MAX_NAME_CHARS, MAX_SLOTS, PoolShare
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy, WhenCutOff
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import RunState

RETRY_FIELDS = (
    "retries",
    "retry_delay_seconds",
    "retry_backoff",
    "retry_max_delay_seconds",
    "retry_jitter",
    "retry_on",
    "retry_on_lost",
)
BLOCKING_FIELDS = (
    "blocking",
    "concurrency",
    "max_waiting",
    "when_cut_off",
    "hold_lost_seconds",
)
CHILD_FIELDS = ("job", "on")
POOL_FIELDS = ("pool", "pool_slots")

MAX_CONCURRENCY = 1_000
MAX_WAITING = 100_000
MIN_HOLD_LOST_MS = 15_000  # a node's lease: sooner nobody knows that it is lost
MAX_HOLD_LOST_MS = 604_800_000
MAX_RETRIES = 100
MAX_RETRY_DELAY_MS = 86_400_000
MAX_LONGEST_DELAY_MS = 604_800_000
MAX_ID = 2**53 - 1
_RETRIED = (RunState.FAILED, RunState.TIMED_OUT)
_FACTORS = {"exponential": 2.0, "fixed": 1.0}
_DEFAULT_RETRY = RetryPolicy()
_DEFAULT_BLOCKING = BlockingPolicy()


# --- pools -----------------------------------------------------------------------------------


def read_pool(fields: Fields) -> PoolShare | None:
    """The pool whose slots its runs take; whether there is one is asked when the job is saved."""
    name = fields.text("pool", max_chars=MAX_NAME_CHARS, is_name=True)
    slots = fields.integer("pool_slots", low=1, high=MAX_SLOTS, default=1)
    if name:
        return PoolShare(name=name, slots=slots)
    if fields.has("pool_slots"):
        fields.refuse(
            "pool_slots",
            "pool_slots.without_pool",
            "This says how many slots of a pool a run takes; name the pool, or leave it empty.",
        )
    return None


def pool_to_raw(pool: PoolShare | None) -> dict[str, Any]:
    """What `read_pool` reads."""
    if pool is None:
        return {"pool": None, "pool_slots": None}
    return {"pool": pool.name, "pool_slots": pool.slots}


# --- blocking --------------------------------------------------------------------------------


def read_blocking(fields: Fields, protocol: Protocol) -> BlockingPolicy:
    """What may run side by side.

    Args:
        protocol: of the job's executor; nodes of XXL-JOB's protocol stop no run by themselves.
    """
    strategy = fields.member("blocking", Blocking, default=Blocking.PARALLEL)
    concurrency = fields.integer("concurrency", low=1, high=MAX_CONCURRENCY, default=1)
    max_waiting = fields.integer("max_waiting", low=0, high=MAX_WAITING, default=0)
    stops = protocol is Protocol.TICKWHEEL
    default = WhenCutOff.STOP if stops or strategy is Blocking.PARALLEL else WhenCutOff.CONTINUE
    when_cut_off = fields.member("when_cut_off", WhenCutOff, default=default)
    hold_lost_ms = fields.seconds_as_ms(
        "hold_lost_seconds", low_ms=MIN_HOLD_LOST_MS, high_ms=MAX_HOLD_LOST_MS
    )
    if strategy is Blocking.PARALLEL:
        for name in ("concurrency", "when_cut_off", "hold_lost_seconds"):
            if fields.has(name):
                fields.refuse(
                    name,
                    "does_not_apply",
                    "With blocking “parallel” no run waits for another one;"
                    " choose another blocking strategy, or leave this out.",
                )
    elif not stops and when_cut_off is WhenCutOff.STOP:
        fields.refuse(
            "when_cut_off",
            "does_not_apply",
            "Nodes of the protocol xxl_job cannot stop a run by themselves when they are cut off;"
            " choose “continue”, or leave this out.",
        )
    if strategy is not Blocking.SERIAL and fields.has("max_waiting"):
        fields.refuse(
            "max_waiting", "does_not_apply", "Runs wait in line only with blocking “serial”."
        )
    return BlockingPolicy(
        strategy=strategy,
        concurrency=concurrency,
        max_waiting=max_waiting if fields.has("max_waiting") else None,
        when_cut_off=when_cut_off,
        hold_lost_ms=_DEFAULT_BLOCKING.hold_lost_ms if hold_lost_ms is None else hold_lost_ms,
    )


def blocking_to_raw(policy: BlockingPolicy) -> dict[str, Any]:
    """What `read_blocking` reads as this policy."""
    blocks = policy.strategy is not Blocking.PARALLEL
    return {
        "blocking": policy.strategy.value,
        "concurrency": policy.concurrency if blocks else None,
        "max_waiting": policy.max_waiting,
        "when_cut_off": policy.when_cut_off.value if blocks else None,
        "hold_lost_seconds": as_seconds(policy.hold_lost_ms) if blocks else None,
    }


# --- retries ---------------------------------------------------------------------------------


def read_retry(fields: Fields) -> RetryPolicy:
    """How often, how soon and after which ends a run is tried again."""
    delay_ms = fields.seconds_as_ms("retry_delay_seconds", low_ms=0, high_ms=MAX_RETRY_DELAY_MS)
    max_ms = fields.seconds_as_ms("retry_max_delay_seconds", low_ms=0, high_ms=MAX_LONGEST_DELAY_MS)
    if delay_ms is not None and max_ms is not None and max_ms < delay_ms:
        fields.refuse(
            "retry_max_delay_seconds",
            "out_of_range",
            "The longest delay must not be shorter than the first one, %(delay)s seconds.",
            delay=as_seconds(delay_ms),
        )
    if delay_ms is None:
        delay_ms = _DEFAULT_RETRY.delay_ms if max_ms is None else min(max_ms, 10_000)
    backoff = fields.choice("retry_backoff", tuple(_FACTORS), default="exponential")
    retries = fields.integer("retries", low=0, high=MAX_RETRIES, default=0)
    outcomes = _read_outcomes(fields)
    on_lost = fields.boolean("retry_on_lost", default=_DEFAULT_RETRY.on_lost)
    if retries and not outcomes and not on_lost:
        fields.refuse(
            "retry_on", "required", "Name at least one end after which there is another try."
        )
    return RetryPolicy(
        retries=retries,
        delay_ms=delay_ms,
        factor=_FACTORS[backoff],
        max_delay_ms=max(_DEFAULT_RETRY.max_delay_ms, delay_ms) if max_ms is None else max_ms,
        jitter=fields.number("retry_jitter", low=0, high=1, default=_DEFAULT_RETRY.jitter),
        outcomes=outcomes,
        on_lost=on_lost,
    )


def _read_outcomes(fields: Fields) -> tuple[RunState, ...]:
    if not fields.has("retry_on"):
        return _DEFAULT_RETRY.outcomes
    value = fields.raw["retry_on"]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        fields.refuse("retry_on", "wrong_type", "This must be a list of texts.")
        return _DEFAULT_RETRY.outcomes
    known = {state.value: state for state in _RETRIED}
    named = [known.get(each) if isinstance(each, str) else None for each in value[:10]]
    if len(value) > 10 or None in named:
        fields.refuse(
            "retry_on",
            "not_one_of",
            "This must be a list of %(choices)s; lost tries have “retry_on_lost”.",
            choices=", ".join(known),
        )
        return _DEFAULT_RETRY.outcomes
    return tuple(state for state in _RETRIED if state in named)


def retry_to_raw(policy: RetryPolicy) -> dict[str, Any]:
    """What `read_retry` reads as this policy."""
    return {
        "retries": policy.retries,
        "retry_delay_seconds": as_seconds(policy.delay_ms),
        "retry_backoff": "fixed" if policy.factor == 1.0 else "exponential",
        "retry_max_delay_seconds": as_seconds(policy.max_delay_ms),
        "retry_jitter": policy.jitter,
        "retry_on": [state.value for state in policy.outcomes],
        "retry_on_lost": policy.on_lost,
    }


# --- children --------------------------------------------------------------------------------


def read_children(fields: Fields) -> tuple[ChildLink, ...]:
    """Which jobs run after this one; that they exist is checked where they are saved."""
    if not fields.has("children"):
        return ()
    value = fields.raw["children"]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        fields.refuse("children", "wrong_type", "This must be a list of jobs to run afterwards.")
        return ()
    if len(value) > MAX_CHILDREN:
        fields.refuse("children", "too_many", "At most %(limit)d, please.", limit=MAX_CHILDREN)
        return ()
    links: list[ChildLink] = []
    for index, raw in enumerate(value):
        before = len(fields.problems)
        child = Fields(raw, fields.where(f"children[{index}]"), fields.problems)
        if not child.is_object:
            continue
        child.only(CHILD_FIELDS)
        if not child.has("job"):
            child.refuse("job", "required", "This is required.")
        link = ChildLink(
            job_id=child.integer("job", low=1, high=MAX_ID, default=1),
            on=child.member("on", ChildOn, default=ChildOn.SUCCESS),
        )
        if len(fields.problems) > before:
            continue
        if any(link.job_id == other.job_id for other in links):
            child.refuse(
                "job", "duplicate", "This job is named before; it would run twice after each run."
            )
        links.append(link)
    return tuple(links)


def children_to_raw(links: Sequence[ChildLink]) -> list[dict[str, Any]]:
    """What `read_children` reads as these links."""
    return [{"job": link.job_id, "on": link.on.value} for link in links]
