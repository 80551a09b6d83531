"""No row holds up its neighbours: a refused batch is halved until the culprit is alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sqlalchemy.exc import IntegrityError

from tickwheel_admin.store.database.database import Refused

T = TypeVar("T")


async def halved(
    batch: Sequence[T],
    write: Callable[[Sequence[T]], Awaitable[None]],
    give_up: Callable[[T, str], Awaitable[None]],
) -> None:
    """Write the batch, or its halves, in order; hand a single row that is refused to `give_up`.

    An AssertionError is a row that our own rules refuse, such as an illegal move of a run.
    """
    try:
        await write(batch)
    except (Refused, IntegrityError, AssertionError) as error:
        if len(batch) == 1:
            await give_up(batch[0], str(error))
            return
        middle = len(batch) // 2
        await halved(batch[:middle], write, give_up)
        await halved(batch[middle:], write, give_up)
