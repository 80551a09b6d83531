"""Jobs of all kinds, no more than the cluster can bear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tests.simulation.faults.chaos import Weather
from tests.simulation.routing import draw_routing
from tests.simulation.schedules import extras, wall_trigger
from tickwheel_admin.domain.fields import instant_to_iso

# Seconds of a slot that one run of the handler takes, roughly, its tries together.
_COST = {
    "quick": 0.1,
    "flaky": 0.5,
    "failing": 0.3,
    "moody": 0.5,
    "poisonous": 0.2,
    "slow": 3.0,
    "long": 15.0,
    "hanging": 4.0,
    "stubborn": 5.0,
    "chatty": 0.6,
}
ENDLESS = "endless"
_UTILISATION = 0.35  # of an executor's slots; what faults hold up must be made up for
_RATES = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)

Job = dict[str, Any]


def make_jobs(
    random: Random,
    *,
    executors: Sequence[str],
    slots: dict[str, int],
    nodes: Mapping[str, Mapping[str, int]],
    now: int,
    zone: str,
    load_seconds: int,
    weather: Weather,
) -> list[tuple[str, Job, list[tuple[int, str]]]]:
    """(executor, job as the API takes it, its children: place in this list, and after what).

    Fires cost no more than the cluster can bear.
    """
    jobs: list[tuple[str, Job, list[tuple[int, str]]]] = []
    # Seeds differ in how busy they are; all of them stay within what a laptop simulates quickly.
    fires_per_second = random.choice((0.3, 0.6) if weather.is_siege else (0.8, 1.6, 3.0))
    for executor in executors:
        budget = slots[executor] * _UTILISATION
        fires = fires_per_second / len(executors)
        first = len(jobs)
        for number in range(random.randint(4, 6)):
            handler = random.choice((*_COST, "poisonous"))
            name = f"{executor}-{handler}-{number}"
            job, room = _job(random, name, handler, nodes[executor])
            shards = {"shards": job.get("shards", 1), "broadcast": len(nodes[executor])}
            # A child costs about as much as its parent.
            children = _children(random, first, len(jobs))
            cost = _COST[handler] * (shards.get(job["routing"], 1) + len(children))
            in_line = job.get("concurrency", 1_000) * 0.5  # slots its own lane has at most
            job["triggers"], used = _triggers(
                random,
                budget=min(budget, fires * cost, in_line, room * _UTILISATION),
                cost=cost,
                now=now,
                zone=zone,
                load_seconds=load_seconds,
                weather=weather,
            )
            budget -= used
            fires -= used / cost
            jobs.append((executor, job, children))
        # Never ends by itself and has no timeout: only a cancel that arrives ends its runs.
        name = f"{executor}-{ENDLESS}"
        endless, _ = _job(random, name, "hanging", nodes[executor], parallel=True)
        jobs.append((executor, endless | {"timeout_seconds": None}, []))
    return jobs


def _job(
    random: Random, name: str, handler: str, nodes: Mapping[str, int], *, parallel: bool = False
) -> tuple[Job, int]:
    """A job, and how many slots its runs can have at once."""
    retries = random.choice((0, 0, 1, 2, 4)) if handler != "long" else random.choice((0, 0, 1))
    blocking = {} if parallel else _blocking(random, handler)
    routing, room = draw_routing(random, nodes)
    sharding = {} if parallel else _sharding(random, handler)
    if sharding:
        routing, room = sharding, sum(nodes.values())
    job = {
        "name": name,
        "handler": handler,
        "parameters": {"own": random.randrange(100), "run": "own"},
        "priority": random.choice((1, 5, 5, 9)),
        "timeout_seconds": random.choice((1, 2, 4))
        if handler == "hanging"
        else random.choice((None, None, 1, 10, 60)),
        "start_within_seconds": random.choice((None, None, None, 3, 10)),
        "retries": retries,
        "retry_delay_seconds": random.choice((0, 0.1, 1, 3)),
        "retry_backoff": random.choice(("fixed", "exponential")),
        "retry_max_delay_seconds": 8,
        "retry_jitter": random.choice((0, 0, 0.5)),
        "retry_on": random.choice((["failed", "timed_out"], ["failed", "timed_out"], ["failed"])),
        "retry_on_lost": random.random() < 0.7,
        "triggers": [],
        **blocking,
        **routing,
    }
    return job, room


def _blocking(random: Random, handler: str) -> Job:
    strategy = random.choice(("parallel", "parallel", "serial", "serial", "discard_later", "cover"))
    if strategy == "parallel":
        return {}
    # A handler that swallows its cancellation outlives the 3 s that are left to stop it.
    may_stop = handler != "stubborn" and random.random() < 0.6
    rules: Job = {
        "blocking": "cover_early" if strategy == "cover" else strategy,
        "concurrency": random.choice((1, 1, 1, 2, 3)),
        "when_cut_off": "stop" if may_stop else "continue",
        "hold_lost_seconds": random.choice((15, 30)),
    }
    if strategy == "serial":
        rules["max_waiting"] = random.choice((None, None, 0, 2, 10))
    return rules


def _sharding(random: Random, handler: str) -> Job:
    if handler in ("long", "hanging", "stubborn") or random.random() < 0.75:
        return {}
    if random.random() < 0.5:
        return {"routing": "broadcast"}
    return {"routing": "shards", "shards": random.choice((1, 2, 3))}


def _children(random: Random, first: int, count: int) -> list[tuple[int, str]]:
    """Links to jobs made before, so that there is no circle."""
    if count == first or random.random() < 0.65:
        return []
    chosen = random.sample(range(first, count), min(count - first, random.choice((1, 1, 2))))
    return [(place, random.choice(("success", "failure", "always"))) for place in chosen]


def misfires_in(weather: Weather) -> tuple[str, ...]:
    """Policies that are fit for the weather: an hour of fast fires would be thousands of runs."""
    few = weather.clock_step_ms > 60_000
    return ("fire_once", "skip") if few else ("fire_once", "skip", "fire_all")


def _triggers(
    random: Random,
    *,
    budget: float,
    cost: float,
    now: int,
    zone: str,
    load_seconds: int,
    weather: Weather,
) -> tuple[list[Job], float]:
    missed: Job = {
        "misfire": random.choice(misfires_in(weather)),
        "misfire_threshold_seconds": random.choice((None, None, 1, 20)),
    }
    if missed["misfire"] == "fire_all":
        missed["catch_up_limit"] = random.choice((None, 2, 20))
    triggers: list[Job] = []
    used = 0.0
    rate = random.choice(_RATES)
    kind = random.random()
    if cost / rate <= budget and kind < 0.2 and rate >= 1:
        trigger = wall_trigger(random, rate=int(rate), now=now, zone=zone)
        triggers.append({**trigger, **missed})
        used += cost / rate
    elif cost / rate <= budget and kind < 0.6:
        trigger = {"kind": "fixed_rate", "every_seconds": rate, **missed}
        if random.random() < 0.3:
            trigger["anchor_at"] = instant_to_iso(now + random.randrange(-5_000, 5_000))
        triggers.append(trigger)
        used += cost / rate
    elif cost / (rate + cost) <= budget and kind < 0.85:
        triggers.append({"kind": "fixed_delay", "every_seconds": rate})
        used += cost / (rate + cost)
    if random.random() < 0.3:
        triggers.append({"kind": "cron", "expression": "* * * * *", **missed})
    if random.random() < 0.3:
        at = now + random.randrange(3_000, load_seconds * 1000)
        triggers.append({"kind": "once", "at": instant_to_iso(at), **missed})
    if random.random() < 0.5:
        triggers = [
            {**extras(random, kind=trigger["kind"], now=now), **trigger} for trigger in triggers
        ]
    return triggers, used
