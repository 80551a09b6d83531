"""Pools of the simulated cluster, and the jobs that name them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.simulation.operators import OPERATOR
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.pools.service import Pools
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids

# Short ones: what waits for a slot of a pool must be over when the simulation is to end.
_HANDLERS = ("quick", "flaky", "failing", "moody", "poisonous", "chatty")
_SHARED = "warehouse"


async def add_pools(
    store: Store, ids: Ids, random: Random, executor_ids: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """A pool of the installation, and one of each executor; returns slots by name, by executor."""
    pools = Pools(store, ids, Events())
    shared = random.randint(2, 4)
    await pools.create(OPERATOR, {"name": _SHARED, "slots": shared})
    named: dict[str, dict[str, int]] = {}
    for executor, executor_id in executor_ids.items():
        own = random.randint(1, 3)
        raw = {"name": f"of-{executor}", "slots": own, "executor": executor_id}
        await pools.create(OPERATOR, raw)
        named[executor] = {_SHARED: shared, f"of-{executor}": own}
    return named


def with_pool(random: Random, raw: dict[str, Any], pools: Mapping[str, int]) -> dict[str, Any]:
    """The job, in a pool if its runs are short."""
    if raw["handler"] not in _HANDLERS or random.random() < 0.2:
        return raw
    name = random.choice((_SHARED, *pools))
    return raw | {"pool": name, "pool_slots": random.randint(1, pools[name])}


def crowd(random: Random, executor: str, pools: Mapping[str, int]) -> list[dict[str, Any]]:
    """Jobs of an executor that keep the shared pool full: light ones, and one that takes it whole.

    They may go to any node, so that the checker knows what each of them waits for.
    """
    rules: tuple[tuple[str, str, int, tuple[float, ...]], ...] = (
        ("light", "chatty", 1, (0.4, 0.6, 1)),
        ("heavy", "quick", pools[_SHARED], (1.5, 2.5)),
    )
    return [
        {
            "name": f"{executor}-{name}",
            "handler": handler,
            "pool": _SHARED,
            "pool_slots": slots,
            "priority": 5,
            "triggers": [{"kind": "fixed_rate", "every_seconds": random.choice(seconds)}],
        }
        for name, handler, slots, seconds in rules
    ]
