"""The proxy of the environment: HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in either case."""

from __future__ import annotations

import base64
import http.client
import ipaddress
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from tickwheel_admin.cli.client.errors import UsageFailure

_DEFAULT_PORT: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRoute:
    """How one admin is reached: straight, or through a proxy."""

    url: str
    proxy: tuple[str, int] | None = None
    proxy_headers: Mapping[str, str] = field(default_factory=dict)  # its user and password

    @property
    def is_tunnel(self) -> bool:
        """Whether the proxy passes bytes on, and cannot read them."""
        return self.proxy is not None and self.url.startswith("https:")

    @property
    def prefix(self) -> str:
        """What stands before the path of a request: a proxy that reads it is told the server."""
        parts = urlsplit(self.url)
        is_read = self.proxy is not None and not self.is_tunnel
        return f"{parts.scheme}://{parts.netloc}" if is_read else ""

    @property
    def headers(self) -> Mapping[str, str]:
        """What each request has besides; the proxy of a tunnel is told when the tunnel is made."""
        return {} if self.is_tunnel else self.proxy_headers

    @property
    def told(self) -> str:
        """For messages: the address, and the proxy before it."""
        if self.proxy is None:
            return self.url
        return f"{self.url} (through the proxy {self.proxy[0]}:{self.proxy[1]})"

    def connection(
        self, *, seconds: float, tls: Callable[[], ssl.SSLContext]
    ) -> http.client.HTTPConnection:
        """One that is not open yet."""
        parts = urlsplit(self.url)
        host, port = self.proxy or (parts.hostname or "", parts.port)
        if parts.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=tls())
        if self.proxy is not None:
            connection.set_tunnel(parts.hostname or "", parts.port, dict(self.proxy_headers))
        return connection


def route_to(url: str) -> AdminRoute:
    """The way to an admin as the environment has it; this machine is never asked of a proxy.

    Raises:
        UsageFailure: the environment names a proxy that cannot be used.
    """
    parts = urlsplit(url)
    named = getproxies_environment().get(parts.scheme)
    if not named or _is_here(parts.hostname or "") or proxy_bypass(parts.netloc):
        return AdminRoute(url=url)
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    try:
        port = proxy.port or _DEFAULT_PORT
    except ValueError:
        port = 0
    if proxy.scheme != "http" or not proxy.hostname or not port:
        raise UsageFailure(
            f"{parts.scheme.upper()}_PROXY must be the address of an HTTP proxy, such as"
            " http://proxy.example.com:3128; NO_PROXY names hosts that need none"
        )
    headers = {}
    if proxy.username:
        login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(login).decode()}"
    return AdminRoute(url=url, proxy=(proxy.hostname, port), proxy_headers=headers)


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
