"""Which IP addresses this installation calls, wherever it was told of them.

Executors, people and answers of name servers tell us addresses. Whoever does that could have us
call anything that we reach: metadata services of clouds, other programs on this machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

IpAddress = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PRIVATE_NETWORKS: tuple[Network, ...] = tuple(
    ip_network(each)
    for each in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "::1/128", "fc00::/7",
    )
)  # fmt: skip

# Never called, whatever is allowed: what these answer is meant for this machine only.
_NEVER = tuple(
    (ip_network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "unspecified"),
        ("::/128", "unspecified"),
        ("169.254.0.0/16", "link-local, where clouds keep metadata"),
        ("fe80::/10", "link-local"),
        ("fd00:ec2::/32", "metadata of a cloud"),  # AWS
        ("fd20:ce::/32", "metadata of a cloud"),  # Google
        ("fd00:c1::/32", "metadata of a cloud"),  # Oracle
        ("100.100.100.200/32", "metadata of a cloud"),  # Alibaba
        ("192.0.0.192/32", "metadata of a cloud"),  # Oracle
        ("168.63.129.16/32", "metadata of a cloud"),  # Azure
        ("224.0.0.0/4", "multicast"),
        ("ff00::/8", "multicast"),
        ("240.0.0.0/4", "reserved"),  # and broadcast
    )
)
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_COMPATIBLE = IPv6Network("::/96")  # also the form of IPv4 addresses that was given up
_ISATAP = (0x00005EFE, 0x02005EFE)


class ForbiddenAddress(OSError):
    """An address outside the networks that may be called, or one that is never called."""


def alarm_guard(networks: Iterable[str | Network]) -> AddressGuard:
    """The guard of alarms' channels: public addresses, and networks of `alarm_networks`."""
    return AddressGuard(networks, is_public=True, setting="alarm_networks")


def is_forbidden(network: Network) -> bool:
    """Whether nothing in the network may ever be called."""
    return any(
        network.version == each.version and network.subnet_of(each)  # type: ignore[arg-type]
        for each, _ in _NEVER
    )


class AddressGuard:
    """Which IP addresses may be called.

    Args:
        networks: as in `10.0.0.0/8`; what is never called stays so, also within them.
        is_public: whether public addresses may be called as well, beside the networks.
        setting: by which people name the networks, for refusals.

    Raises:
        ValueError: one of them is no network.
    """

    def __init__(
        self,
        networks: Iterable[str | Network] = PRIVATE_NETWORKS,
        *,
        is_public: bool = False,
        setting: str = "xxl_job_networks",
    ) -> None:
        self.networks = tuple(ip_network(str(network)) for network in networks)
        self._is_public = is_public
        self._setting = setting

    def check(self, ip: str | IpAddress) -> None:
        """Pass an address that may be called.

        Raises:
            ForbiddenAddress: it may not, or is none.
        """
        try:
            address = ip_address(ip.partition("%")[0] if isinstance(ip, str) else ip)
        except ValueError:
            raise ForbiddenAddress(f"{ip} is no IP address") from None
        if isinstance(address, IPv6Address) and address.scope_id:
            address = IPv6Address(int(address))
        inside = _embedded(address)
        for each in (address, *inside):
            for network, reason in _NEVER:
                if each in network:
                    raise ForbiddenAddress(f"{ip} is {reason}: it is never called")
        # Where packets arrive in the end; of the two addresses in Teredo's none is that.
        target = inside[0] if len(inside) == 1 else address
        if self._is_public and _is_public(target):
            return
        if not any(target in network for network in self.networks):
            kind = "is not public and lies" if self._is_public else "lies"
            raise ForbiddenAddress(f"{ip} {kind} outside {self._setting}")


def _is_public(address: IpAddress) -> bool:
    """Of IPv6, only what has been given out for the Internet so far."""
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return address.is_global


def _embedded(address: IpAddress) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses to which an IPv6 address of a transition leads."""
    if isinstance(address, IPv4Address):
        return ()
    number = int(address)
    low = IPv4Address(number & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if any(address in network for network in _NAT64):
        return (low,)
    if address in _COMPATIBLE and number > 0xFFFF:  # ::1 is loopback's own
        return (low,)
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        return (low,)
    return ()
