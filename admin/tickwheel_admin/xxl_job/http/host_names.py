"""Addresses of executors' hosts, each asked for once in a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from socket import AddressFamily

from aiohttp.abc import AbstractResolver

KNOWN_SECONDS = 10.0  # for which a name is not resolved again
_MAX_NAMES = 4096  # remembered ones


class HostNames:
    """Used from one event loop.

    Args:
        resolver: gives only addresses that may be called.
    """

    def __init__(self, resolver: AbstractResolver) -> None:
        self._resolver = resolver
        self._known: dict[str, tuple[float, Sequence[str]]] = {}  # with the time until when
        self._looking: dict[str, asyncio.Task[Sequence[str]]] = {}

    async def addresses(self, host: str) -> Sequence[str]:
        """The IP addresses of a host, one at least.

        Raises:
            OSError: it has none that may be called.
        """
        until, found = self._known.get(host, (0.0, ()))
        if asyncio.get_running_loop().time() < until:
            return found
        looking = self._looking.get(host)
        if looking is None:
            looking = asyncio.create_task(self._look(host), name="xxl-job-name")
            self._looking[host] = looking
            looking.add_done_callback(lambda _: self._looking.pop(host, None))
        return await asyncio.shield(looking)  # others wait for the same answer

    async def close(self) -> None:
        """End what is under way, and the resolver."""
        looking = list(self._looking.values())
        for each in looking:
            each.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
        await self._resolver.close()

    async def _look(self, host: str) -> Sequence[str]:
        resolved = await self._resolver.resolve(host, 0, AddressFamily.AF_UNSPEC)
        found = list(dict.fromkeys(each["host"] for each in resolved))
        if not found:
            raise OSError(f"{host} has no address")
        now = asyncio.get_running_loop().time()
        if len(self._known) >= _MAX_NAMES:
            self._known = {name: each for name, each in self._known.items() if each[0] > now}
        self._known[host] = (now + KNOWN_SECONDS, found)
        return found
