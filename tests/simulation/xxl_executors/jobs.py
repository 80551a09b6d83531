"""Jobs of executors of XXL-JOB's protocol."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulation.workload import ENDLESS

_HANDLERS = ("quick", "quick", "flaky", "failing", "long", "hanging", "stubborn")
_EVERY = {"quick": (0.5, 1.0, 3.0), "flaky": (1.0, 2.0), "failing": (2.0, 5.0), "long": (6.0, 10.0)}


def make_xxl_jobs(random: Random, executor: str) -> list[dict[str, Any]]:
    """Some of each kind: as the API takes them."""
    jobs = []
    for number in range(random.randint(3, 5)):
        handler = random.choice(_HANDLERS)
        job: dict[str, Any] = {
            "name": f"{executor}-{handler}-{number}",
            "handler": handler,
            "parameters": {"param": f"{number}"},
            "timeout_seconds": random.choice((1, 2, 4))
            if handler == "hanging"
            else random.choice((None, None, 2, 10, 60)),
            "start_within_seconds": random.choice((None, None, None, 10)),
            "retries": random.choice((0, 0, 1, 2)),
            "retry_delay_seconds": random.choice((0, 0.1, 1)),
            "retry_on": ["failed", "timed_out"],
            "retry_on_lost": random.random() < 0.5,
            "routing": random.choice(
                ("round_robin", "least_busy", "random", "first", "busy_over", "failover")
            ),
            "triggers": [],
        }
        strategy = random.choice(("parallel", "parallel", "serial", "serial", "discard_later"))
        if strategy != "parallel":
            job |= {"blocking": strategy, "concurrency": 1}
            job["hold_lost_seconds"] = random.choice((15, 30))
            if strategy == "serial":
                job["max_waiting"] = random.choice((2, 10))
        elif random.random() < 0.2 and handler in ("quick", "flaky"):
            job["routing"] = "broadcast"
        every = random.choice(_EVERY.get(handler, (3.0, 6.0)))
        kind = "fixed_rate" if random.random() < 0.8 else "fixed_delay"
        job["triggers"].append({"kind": kind, "every_seconds": every})
        jobs.append(job)
    if random.random() < 0.5:  # its runs are told to end all the time
        jobs.append(
            {
                "name": f"{executor}-covered",
                "handler": "long",
                "parameters": {"param": ""},
                "blocking": "cover_early",
                "concurrency": 1,
                "hold_lost_seconds": random.choice((15, 30)),
                "triggers": [{"kind": "fixed_rate", "every_seconds": random.choice((0.5, 1, 3))}],
            }
        )
    jobs.append(
        {
            "name": f"{executor}-{ENDLESS}",
            "handler": "hanging",
            "parameters": {"param": ""},
            "timeout_seconds": None,
            "retry_on_lost": random.random() < 0.5,
            "triggers": [],
        }
    )
    return jobs
