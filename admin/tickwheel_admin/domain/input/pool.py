"""Pools as people and programs write them: field names, limits, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.run_rules import MAX_ID
from tickwheel_admin.domain.pools.pool import (
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    MAX_SLOTS,
    OF_INSTALLATION,
    SlotPool,
)

POOL_FIELDS = ("executor", "name", "description", "slots")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInput:
    """What a request says of a pool."""

    executor_id: int  # OF_INSTALLATION: jobs of every executor may name it
    name: str
    description: str
    slots: int


def parse_pool(raw: object) -> PoolInput:
    """A pool from a request.

    Raises:
        InvalidInput: with every problem found.
    """
    fields = Fields(raw, "", [])
    parsed = PoolInput(executor_id=OF_INSTALLATION, name="", description="", slots=0)
    if fields.is_object:
        fields.only((*POOL_FIELDS, "id", "version"))
        fields.require("slots")
        of_one = fields.has("executor")
        executor_id = fields.integer("executor", low=1, high=MAX_ID, default=1)
        parsed = PoolInput(
            executor_id=executor_id if of_one else OF_INSTALLATION,
            name=fields.text("name", max_chars=MAX_NAME_CHARS, required=True, is_name=True),
            description=fields.text("description", max_chars=MAX_DESCRIPTION_CHARS),
            slots=fields.integer("slots", low=0, high=MAX_SLOTS, default=0),
        )
    raise_if_any(fields.problems)
    return parsed


def pool_fields(pool: SlotPool) -> dict[str, Any]:
    """What `parse_pool` reads as this pool."""
    return {
        "executor": None if pool.is_of_installation else pool.executor_id,
        "name": pool.name,
        "description": pool.description,
        "slots": pool.slots,
    }
