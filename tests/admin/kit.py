"""What tests of identity, web and API share: a full SQLite, cheap passwords, a clock to turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from argon2 import PasswordHasher

from tickwheel_admin.config import Config, load_config
from tickwheel_admin.services.passwords import Passwords
from tickwheel_admin.store.database import Database
from tickwheel_admin.store.tables import metadata

NOW = 1_800_000_000_000
GOOD_PASSWORD = "correct horse battery"


@dataclass
class Clock:
    """Database time and monotonic time, moved by hand; `sleep` moves them as well."""

    now: int = NOW
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)


def cheap_passwords() -> Passwords:
    """Argon2id all the same, but in under a millisecond."""
    return Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


def config_in(directory: Path, **settings: object) -> Config:
    return load_config({"data_dir": directory, **settings}, environment={})


@asynccontextmanager
async def fresh_store(directory: Path, clock: Clock | None = None) -> AsyncIterator[Database]:
    """A Database with every table, on SQLite."""
    database = Database(f"sqlite:///{directory / 'tickwheel.db'}", clock=clock)
    try:
        await database.run(metadata.create_all)
        yield database
    finally:
        await database.close()
