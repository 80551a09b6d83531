"""Hi-lo ids: blocks are taken from the database, numbers from memory.

Short for people, safe in JavaScript, unique across admins, but not an order: two admins hand out of
different blocks at the same time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import sqlalchemy as sa

from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.tables import id_block

T = TypeVar("T")

FIRST_BLOCK = 20  # small installations keep small numbers
MAX_BLOCK = 5_000  # a busy admin asks for a block every few thousand runs


class TooFewIds(Exception):
    """A transaction found that it has more rows to write than it was given ids for.

    Nothing was written: its caller takes `count` ids, in a transaction of their own, and repeats.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(f"{count} ids are needed")


class IdsAhead:
    """How many ids transactions of a kind are given before they ask: as many as one used of late.

    One that has too few is begun twice; of one that has too many, the rest is lost.
    """

    def __init__(self) -> None:
        self._most = 0.0

    @property
    def count(self) -> int:
        """How many the next one is given."""
        return round(self._most)

    def used(self, count: int) -> None:
        """A transaction has used so many: what is more than that is forgotten little by little."""
        self._most = max(count, self._most * 7 / 8)


class Ids:
    """Numbers per name (a table's name), from 1. Ids left in a block at a restart are not used."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left: defaultdict[str, range] = defaultdict(lambda: range(0))
        self._block: defaultdict[str, int] = defaultdict(lambda: FIRST_BLOCK)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def take(self, name: str) -> int:
        """One new id."""
        return (await self.take_many(name, 1))[0]

    async def take_many(self, name: str, count: int) -> list[int]:
        """`count` new ids, rising."""
        async with self._locks[name]:
            left = self._left[name]
            taken = list(left[:count])
            self._left[name] = left[count:]
            missing = count - len(taken)
            if missing:
                size = max(self._block[name], missing)
                self._block[name] = min(self._block[name] * 2, MAX_BLOCK)
                first = await self._store.run(take_block, name, size)
                taken += range(first, first + missing)
                self._left[name] = range(first + missing, first + size)
            return taken

    async def run_with_ids(
        self, name: str, work: Callable[[Sequence[int]], Awaitable[T]], *, at_first: int = 0
    ) -> T:
        """Do `work`, a transaction that learns only on its way how many new ids it needs.

        It is given those that it asks for when it is repeated.

        Args:
            at_first: how many it is given before it asks; those that it does not use are lost.
        """
        ids = await self.take_many(name, at_first) if at_first else []
        while True:
            try:
                return await work(ids)
            except TooFewIds as more:
                ids += await self.take_many(name, more.count - len(ids))


def take_block(conn: sa.Connection, name: str, size: int) -> int:
    """Reserve `size` ids and return the first."""
    taken = conn.execute(
        sa.update(id_block).where(id_block.c.name == name).values(next_id=id_block.c.next_id + size)
    )
    if taken.rowcount == 0:
        # A race between two admins ends in a duplicate key; the loser's transaction is repeated.
        conn.execute(sa.insert(id_block).values(name=name, next_id=1 + size))
        return 1
    after = conn.execute(sa.select(id_block.c.next_id).where(id_block.c.name == name)).scalar_one()
    return int(after) - size
