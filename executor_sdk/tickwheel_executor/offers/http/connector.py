"""Connections that lead only to addresses that the policy allows."""

from __future__ import annotations

import socket
import ssl
from ipaddress import ip_address

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from .addresses import AddressPolicy


class RefusedAddressError(Exception):
    """A host or an address that may not be called; says why, and who can allow it."""


class CheckedResolver(AbstractResolver):
    """Resolves names and refuses one if any of its addresses is refused.

    The connection is made to the very addresses that were checked, without another look-up.
    """

    def __init__(self, policy: AddressPolicy, resolver: AbstractResolver | None = None) -> None:
        self._policy = policy
        self._resolver = resolver or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a host.

        Raises:
            RefusedAddressError: one of them may not be called.
            OSError: there is no such host.
        """
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            address = ip_address(each["host"].partition("%")[0])
            if why := self._policy.why_not_address(host, port, address):
                raise RefusedAddressError(why)
        return found

    async def close(self) -> None:
        """Close the resolver inside."""
        await self._resolver.close()


def connector(
    policy: AddressPolicy, *, tls: ssl.SSLContext, has_proxy: bool
) -> aiohttp.TCPConnector:
    """For one call: its connections are not used again.

    Args:
        has_proxy: all connections go to the owner's proxy, which resolves the names itself.
    """
    return aiohttp.TCPConnector(
        resolver=ThreadedResolver() if has_proxy else CheckedResolver(policy),
        ssl=tls,
        use_dns_cache=False,
        force_close=True,
        enable_cleanup_closed=False,
    )


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Verifies certificates against the system's authorities, and those in `ca_file`.

    Raises:
        OSError: the file cannot be read, or contains no certificate (ssl.SSLError).
    """
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(cafile=ca_file)
    return context
