"""What tests of services have beside a database with every service on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.admin.kit.clock import Clock
from tests.admin.kit.oidc import Oidc, oidc_world
from tests.admin.kit.served import fresh_store
from tests.admin.kit.services import ADMIN, FAR, JOB, World
from tickwheel_admin.store.database.database import Database


@pytest.fixture
async def executor_id(world: World) -> int:
    return await world.executor()


@pytest.fixture
async def run_id(world: World, executor_id: int) -> int:
    """Of a run that goes on."""
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    return world.run(executor_id=executor_id, job_id=job_id, state="running", deadline_at=FAR)


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[Database]:
    """A database without services."""
    async with fresh_store(tmp_path, clock) as database:
        yield database


@pytest.fixture
async def oidc(tmp_path: Path) -> AsyncIterator[Oidc]:
    """Two admins and a provider whose person is in the group of administrators."""
    async with oidc_world(tmp_path) as world:
        world.provider.person["groups"] = ["admins"]
        yield world
