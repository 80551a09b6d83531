"""Whether a handler exists, as far as the live nodes tell."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.executors.node import ANY_HANDLER
from tickwheel_admin.domain.fields import closest
from tickwheel_admin.store.executors.executors import offered_handlers

MAX_NAMED = 20


def check_handler(conn: sa.Connection, executor_id: int, handler: str) -> None:
    """Refuse a handler that no live node offers; without live nodes nothing is known.

    Raises:
        InvalidInput: handler.unknown, naming what is offered.
    """
    check_offered(offered_handlers(conn, [executor_id]).get(executor_id), handler)


def check_offered(handlers: frozenset[str] | None, handler: str) -> None:
    """The same, of handlers that were read already; None: the executor has no live nodes."""
    if handlers is None or is_offered(handlers, handler):
        return
    offered = sorted(handlers)
    named = ", ".join(offered[:MAX_NAMED]) + ("…" if len(offered) > MAX_NAMED else "")
    meant = closest(handler, offered)
    if meant is not None:
        raise InvalidInput.one(
            "handler",
            "handler.unknown",
            "No live node offers “%(handler)s”; did you mean “%(meant)s”? Offered are %(offered)s.",
            handler=handler,
            meant=meant,
            offered=named,
        )
    raise InvalidInput.one(
        "handler",
        "handler.unknown",
        "No live node offers “%(handler)s”; offered are %(offered)s.",
        handler=handler,
        offered=named or "–",
    )


def is_offered(handlers: frozenset[str] | None, handler: str) -> bool:
    """Whether a handler may be used; None: nothing is known, as the executor has no live nodes."""
    return handlers is None or handler in handlers or ANY_HANDLER in handlers
