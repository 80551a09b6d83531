"""The shape of pools in requests and answers."""

from __future__ import annotations

from typing import Annotated, Required, TypedDict

from msgspec import Meta

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.pools.pool import MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, MAX_SLOTS
from tickwheel_admin.web.input_fields import MAX_ID

_Id = Annotated[int, Meta(ge=1, le=MAX_ID)]


class NewPoolJson(TypedDict, total=False):
    """A pool to add."""

    executor: Annotated[_Id | None, doc("Whose jobs may name it; null: those of all.")]
    name: Required[Annotated[str, Meta(max_length=MAX_NAME_CHARS)]]
    description: Annotated[str, Meta(max_length=MAX_DESCRIPTION_CHARS)] | None
    slots: Required[Annotated[int, Meta(ge=0, le=MAX_SLOTS)]]


class PoolChangeJson(NewPoolJson, total=False):
    """What a pool shall be."""

    id: Annotated[_Id | None, doc("As in the address.")]
    version: Required[Annotated[_Id, doc("The version that the change is based on.")]]


class PoolJson(TypedDict):
    """Slots that the runs of several jobs share."""

    id: int
    version: int
    executor: Annotated[int | None, doc("Whose jobs may name it; null: those of all.")]
    name: str
    description: str
    slots: int
    executor_name: str | None
    in_use: int
    waiting: int
    used_by_jobs: int
    created_at: Instant | None
    updated_at: Instant | None


class PoolUserJson(TypedDict):
    """A job that names the pool."""

    job_id: int
    job_name: str
    executor_id: int
    executor_name: str
    is_step: bool


class PoolHolderJson(TypedDict):
    """A run that holds slots."""

    run_id: int
    job_id: int
    job_name: str
    slots: int
    since: Instant | None


class PoolDetailJson(PoolJson):
    """A pool with who uses it."""

    used_by: list[PoolUserJson]
    holders: list[PoolHolderJson]
