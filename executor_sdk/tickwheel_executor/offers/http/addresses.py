"""Which addresses may be called: public ones, and those that the machine's owner allows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Written out, because `ipaddress.is_global` answers differently from one Python to the next:
# https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry.
_NOT_PUBLIC_IPV4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # of carriers; 100.100.100.200 is Alibaba's metadata service
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast and reserved
    )
)
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_NOT_PUBLIC_IPV6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocols, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4, which leads to any IPv4 address
        "3fff::/20",
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")  # the last four bytes are an IPv4 address
_METADATA = (
    IPv4Network("169.254.0.0/16"),
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::/32"),
)
_HOST = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?", re.IGNORECASE)
_PORT = re.compile(r"(.+):([0-9]{1,5})")
_AS_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host name, `*.` and a domain, with a port or for any."""

    name: str  # lower case; with a leading dot: every name below it
    port: int | None = None

    def matches(self, host: str, port: int) -> bool:
        """Whether it means this host and port."""
        if self.port is not None and self.port != port:
            return False
        return host.endswith(self.name) if self.name.startswith(".") else host == self.name


@dataclass(frozen=True, slots=True)
class HostRules:
    """Hosts and networks that an owner has listed."""

    hosts: tuple[HostPattern, ...] = ()
    networks: tuple[Network, ...] = ()

    def has_host(self, host: str, port: int) -> bool:
        """Whether this name is listed."""
        return any(each.matches(host.lower().rstrip("."), port) for each in self.hosts)

    def has_address(self, address: Address) -> bool:
        """Whether a listed network contains it."""
        return any(address in each for each in self.networks)

    def __bool__(self) -> bool:
        return bool(self.hosts or self.networks)


def host_rules(texts: Iterable[str]) -> tuple[HostRules, list[str]]:
    """Rules from texts, and what is wrong with those that are none.

    Args:
        texts: "api.example.com", "localhost:8080", "*.example.com", "10.1.0.0/16", "::1".
    """
    hosts: list[HostPattern] = []
    networks: list[Network] = []
    problems: list[str] = []
    for text in texts:
        try:
            networks.append(ip_network(text.strip("[]")))
            continue
        except ValueError:
            pass
        match = _PORT.fullmatch(text)
        name, port = (match[1], int(match[2])) if match else (text, None)
        if _HOST.fullmatch(name) and ends_in_number(name) is None and (port or 1) < 65_536:
            hosts.append(HostPattern(name.lower().removeprefix("*"), port))
        else:
            problems.append(
                f"{text!r} is neither a host nor a network; write such as "
                '"api.example.com", "localhost:8080", "*.example.com" or "10.1.0.0/16"'
            )
    return HostRules(tuple(hosts), tuple(networks)), problems


def ends_in_number(host: str) -> str | None:
    """The last label of a host if it is a number, as in an IPv4 address in any of its forms."""
    last = host.rstrip(".").rpartition(".")[2]
    return last if _AS_NUMBER.fullmatch(last) else None


def literal(host: str) -> Address | None:
    """The address that a host is written as; None: a name.

    Raises:
        ValueError: a number that systems take for an address, such as 2130706433 or 127.1.
    """
    if ":" in host:
        return ip_address(host.partition("%")[0])
    if ends_in_number(host) is None:
        return None
    return IPv4Address(host)  # strict: four decimal numbers without leading zeros


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Decides on hosts and on the addresses that they resolve to."""

    private: HostRules = field(default_factory=HostRules)  # may be called although not public
    only: HostRules = field(default_factory=HostRules)  # if any: nothing else may be called

    def why_not_host(self, host: str, port: int, *, by_proxy: bool = False) -> str | None:
        """Why this host may not be called, whatever it resolves to; None: it may.

        Args:
            by_proxy: its name is resolved by a proxy, so its addresses are never seen here.
        """
        try:
            address = literal(host)
        except ValueError:
            return f"{host} is no host name, and no address in its usual form"
        if self.only and not self.only.has_host(host, port):
            if address is None:
                # A name could only be listed by the networks of its addresses, checked later.
                return None if self.only.networks and not by_proxy else _not_listed(host)
            if not self.only.has_address(address):
                return _not_listed(host)
        return None if address is None else self.why_not_address(host, port, address)

    def why_not_address(self, host: str, port: int, address: Address) -> str | None:
        """Why this address of the host may not be called; None: it may."""
        address = target_of(address)
        if self.only and not (self.only.has_host(host, port) or self.only.has_address(address)):
            return _not_listed(host)
        if self.private.has_address(address):
            return None
        if any(address in network for network in _METADATA):
            return _refusal(host, address, "where clouds keep credentials", names=False)
        if not is_public(address) and not self.private.has_host(host, port):
            return _refusal(host, address, "not public", names=True)
        return None


def target_of(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, else the same without its zone."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    bare = IPv6Address(int(address))
    return IPv4Address(int(bare) & 0xFFFFFFFF) if bare in _NAT64 else bare


def is_public(address: Address) -> bool:
    """Whether it belongs to the public Internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_IPV4)
    return address in _PUBLIC_IPV6 and not any(address in each for each in _NOT_PUBLIC_IPV6)


def _refusal(host: str, address: Address, why: str, *, names: bool) -> str:
    what = f"{host} is {address}" if host != str(address) else host
    by = "by name or network" if names else "by network"
    return (
        f"{what}, which is {why}; whoever runs this machine can allow it {by} "
        "(`private` of the section http)"
    )


def _not_listed(host: str) -> str:
    return (
        f"{host} is not among the hosts that this machine may call; whoever runs it can add it "
        "(`only` of the section http)"
    )
