"""Executors by the names that people type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tickwheel_admin.cli.common import Failure
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE


async def executors_by_name(services: Services) -> dict[str, int]:
    """Ids of executors, by name."""
    return {each.name: each.id for each in await services.executors.list(COMMAND_LINE)}


def executor_ids(known: Mapping[str, int], names: Sequence[str]) -> list[int]:
    """The ids of the executors named on the command line; Failure when there is no such one."""
    for name in names:
        if name not in known:
            raise Failure(f"there is no executor called {name}")
    return [known[name] for name in names]
