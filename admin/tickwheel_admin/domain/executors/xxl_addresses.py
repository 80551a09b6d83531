"""Where executors may be: addresses in one spelling, and which of them we call.

Executors tell us where to call them, so that anyone who has the token of one could have us call
anything that we reach. People's own lists and registrations have the same rules, so that an address
is the same node however it became known.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import SplitResult, urlsplit

from tickwheel_admin.domain.network_guard import PRIVATE_NETWORKS, AddressGuard, IpAddress

MAX_ADDRESS_CHARS = 300
DEFAULT_NETWORKS = PRIVATE_NETWORKS  # what `xxl_job_networks` is when it is not set
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
_MAX_HOST_CHARS = 253


class InvalidAddress(ValueError):
    """Not an address of an executor; the message says what is wrong with it."""


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


def check_literal(guard: AddressGuard, address: str) -> None:
    """Pass a normalised address, unless it names an IP address that may not be called.

    Raises:
        ForbiddenAddress: it may not.
    """
    ip = literal_ip(address)
    if ip is not None:
        guard.check(ip)


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
