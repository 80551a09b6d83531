"""Where executors may be: addresses in one spelling, and which of them we call.

Executors tell us where to call them, so that anyone who has the token of one could have us call
anything that we reach. People's own lists and registrations have the same rules, so that an address
is the same node however it became known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

IpAddress = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_ADDRESS_CHARS = 300
# What `xxl_job_networks` is when it is not set.
DEFAULT_NETWORKS: tuple[Network, ...] = tuple(
    ip_network(each)
    for each in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "::1/128", "fc00::/7",
    )
)  # fmt: skip
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
_MAX_HOST_CHARS = 253

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
_COMPATIBLE = IPv6Network("::/96")  # also the form of IPv4 addresses that was given up
_ISATAP = (0x00005EFE, 0x02005EFE)


class InvalidAddress(ValueError):
    """Not an address of an executor; the message says what is wrong with it."""


class ForbiddenAddress(OSError):
    """An address outside `xxl_job_networks`, or one that is never called."""


def normalise(address: str) -> str:
    """The address in one spelling: `http://host:port`, perhaps a path, and no slash at the end.

    Raises:
        InvalidAddress: with the reason.
    """
    address = address.strip()
    if len(address) > MAX_ADDRESS_CHARS:
        raise InvalidAddress(f"an address has at most {MAX_ADDRESS_CHARS} characters")
    if not address.isascii() or not address.isprintable() or " " in address or "\\" in address:
        raise InvalidAddress("an address has only printable ASCII characters")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise InvalidAddress("the host or the port cannot be read") from None
    if parts.scheme not in _PORTS or not parts.netloc:
        raise InvalidAddress("an address begins with http:// or https://")
    if "@" in parts.netloc:
        raise InvalidAddress("an address holds no user and no password")
    if "?" in address or "#" in address:
        raise InvalidAddress("an address has no query and no fragment")
    if port == 0:
        raise InvalidAddress("port 0 cannot be called")
    found = f"{parts.scheme}://{_host(parts)}:{port or _PORTS[parts.scheme]}{_path(parts.path)}"
    if len(found) > MAX_ADDRESS_CHARS:
        raise InvalidAddress(f"an address has at most {MAX_ADDRESS_CHARS} characters")
    return found


def is_forbidden(network: Network) -> bool:
    """Whether nothing in the network may ever be called."""
    return any(
        network.version == each.version and network.subnet_of(each)  # type: ignore[arg-type]
        for each, _ in _NEVER
    )


def join(address: str, path: str) -> str:
    """The URL of one of the executor's paths.

    Args:
        address: as `normalise` gives it.
        path: "/run" and the like.
    """
    return f"{address.rstrip('/')}/{path.lstrip('/')}"


def literal_ip(address: str) -> IpAddress | None:
    """The IP address that a normalised address names; None: it names a host.

    Raises:
        InvalidAddress: not normalised.
    """
    host = urlsplit(address).hostname
    if host is None:
        raise InvalidAddress("the host cannot be read")
    try:
        return ip_address(host)
    except ValueError:
        return None


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").removesuffix(".")
    if parts.netloc.startswith("["):
        if "%" in host:
            raise InvalidAddress("an IPv6 address with a zone is link-local, and never called")
        try:
            return f"[{IPv6Address(host)}]"
        except ValueError:
            raise InvalidAddress("the IPv6 address cannot be read") from None
    if _looks_numeric(host):
        # The system's resolver reads 2130706433, 0x7f.1 and 0177.0.0.1 as 127.0.0.1.
        try:
            return str(_numeric(host))
        except ValueError:
            raise InvalidAddress("the IPv4 address cannot be read") from None
    if len(host) > _MAX_HOST_CHARS or _HOST.fullmatch(host) is None:
        raise InvalidAddress("the host is no name and no IP address")
    return host


def _looks_numeric(host: str) -> bool:
    last = host.rpartition(".")[2]
    return last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) is not None


def _numeric(host: str) -> IPv4Address:
    """One to four numbers, the last for all bytes that are left; raises ValueError."""
    *first, last = [_number(text) for text in host.split(".")]
    left = 4 - len(first)
    if left < 1 or any(each > 0xFF for each in first) or last >= 256**left:
        raise ValueError("too many numbers, or too large ones")
    high = int.from_bytes(bytes(first), "big")
    return IPv4Address(high * 256**left + last)


def _number(text: str) -> int:
    if re.fullmatch(r"0x[0-9a-f]+", text):
        return int(text[2:], 16)
    if not text.isdigit():
        raise ValueError("not a number")
    return int(text, 8 if text.startswith("0") else 10)


def _path(path: str) -> str:
    if _PATH.fullmatch(path) is None:
        raise InvalidAddress("the path holds characters that no path holds")
    names = [name for name in path.split("/") if name]
    if any(name.replace("%2e", ".").replace("%2E", ".") in (".", "..") for name in names):
        raise InvalidAddress("the path holds no . and no ..")
    return "".join(f"/{name}" for name in names)


class AddressGuard:
    """Which IP addresses may be called.

    Args:
        networks: as in `10.0.0.0/8`; what is never called stays so, also within them.

    Raises:
        ValueError: one of them is no network.
    """

    def __init__(self, networks: Iterable[str | Network] = DEFAULT_NETWORKS) -> None:
        self._networks = tuple(ip_network(str(network)) for network in networks)

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
        if not any(target in network for network in self._networks):
            raise ForbiddenAddress(f"{ip} lies outside xxl_job_networks")

    def check_literal(self, address: str) -> None:
        """Pass a normalised address, unless it names an IP address that may not be called.

        Raises:
            ForbiddenAddress: it may not.
        """
        ip = literal_ip(address)
        if ip is not None:
            self.check(ip)


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
