"""A clock to turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database import clock as database_clock
from tickwheel_admin.store.database.database import Database

NOW = 1_800_000_000_000


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


def turn_clock_of_server(database: Database, clock: Clock) -> None:
    """Let a server say this clock's time wherever a statement asks for its own; not for SQLite."""
    if database.engine.dialect.name == "sqlite":
        return
    asked = [
        str(function().compile(database.engine))
        for function in (database_clock.database_now, database_clock.statement_began)
    ]

    def say(
        _conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> tuple[str, Any]:
        for each in asked:
            statement = statement.replace(each, str(clock.now))
        return statement, parameters

    sa.event.listen(database.engine, "before_cursor_execute", say, retval=True)
