"""What a move needs of XXL-JOB's database; `their_schedule` has it over a real connection."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from tickwheel_admin.domain.xxl_job.take_over import TheirState


class HeldSchedule(Protocol):
    """XXL-JOB's database in a transaction that holds its lock row."""

    async def now(self) -> int:
        """The clock of that database, UTC epoch ms."""
        ...

    async def jobs(self, job_ids: Collection[int]) -> dict[int, TheirState]:
        """Jobs by id, locked."""
        ...

    async def stop(self, job_ids: Collection[int]) -> None:
        """Stop jobs that are locked and run."""
        ...

    async def start(self, next_at: Mapping[int, int]) -> None:
        """Start jobs that are locked and stopped, each at an instant."""
        ...

    async def commit(self) -> None:
        """Commit. An error leaves open whether it was done."""
        ...


class TheirSchedule(Protocol):
    """XXL-JOB's database."""

    def held(self) -> AbstractAsyncContextManager[HeldSchedule]:
        """Hold the lock row until the end of the block; what is not committed is rolled back."""
        ...
