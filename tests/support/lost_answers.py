"""A store that loses the answers of commits, so that its callers ask for what is done already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import audit

P = ParamSpec("P")
T = TypeVar("T")


class LosingAnswers:
    """The Store protocol over a Database; every transaction that writes is committed twice.

    The second time its caller gets the answer, as after a connection that broke on the first
    commit. Only one that writes an audit row counts: that is what an edit is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.lost = 0
        self.between: Callable[[], None] | None = None  # done once, after a commit without answer

    async def run(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def is_edit(conn: sa.Connection, *args: Any, **kwargs: Any) -> tuple[bool, T]:
            before = _count_audit(conn)
            answer = work(conn, *args, **kwargs)
            return _count_audit(conn) > before, answer

        edited, answer = await self._database.run(is_edit, *args, **kwargs)
        if not edited:
            return answer
        self.lost += 1
        if self.between is not None:
            between, self.between = self.between, None
            between()
        return await self._database.run(work, *args, **kwargs)

    async def read(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._database.read(work, *args, **kwargs)


def _count_audit(conn: sa.Connection) -> int:
    return int(conn.execute(sa.select(sa.func.count()).select_from(audit)).scalar_one())
