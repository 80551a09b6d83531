"""Names of hosts are resolved to addresses that may be called.

A name is checked by what it resolves to, in the resolver itself: what was checked is what is
connected to, whatever the name resolves to a moment later.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from tickwheel_admin.domain.network_guard import AddressGuard, ForbiddenAddress

_RESOLVER_THREADS = 8  # names that hang take no threads of anything else


class GuardedResolver(AbstractResolver):
    """Resolves names to those of their addresses that may be called.

    Args:
        guard: which may.
        inner: what resolves; the system's resolver, in threads of its own, when not given.
    """

    def __init__(self, guard: AddressGuard, inner: AbstractResolver | None = None) -> None:
        self._guard = guard
        self._inner = inner or _SystemResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses to connect to.

        Raises:
            ForbiddenAddress: the name has none that may be called.
            OSError: the name has none.
        """
        allowed = []
        refused = ForbiddenAddress(f"{host} has no address")
        for found in await self._inner.resolve(host, port, family):
            try:
                self._guard.check(found["host"])
            except ForbiddenAddress as error:
                refused = ForbiddenAddress(f"{host}: {error}")
            else:
                allowed.append(found)
        if not allowed:
            raise refused
        return allowed

    async def close(self) -> None:
        """End the resolver that was given."""
        await self._inner.close()


class _SystemResolver(AbstractResolver):
    """getaddrinfo in a few threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVER_THREADS, "guarded-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, _getaddrinfo, host, port, family
        )
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=kind,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, proto, _, address in found
            if kind in (socket.AF_INET, socket.AF_INET6)
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _getaddrinfo(host: str, port: int, family: int) -> list[tuple[Any, ...]]:
    return list(socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM))
