"""How many wrong passwords are heard before somebody has to wait.

Buckets of allowed failures that refill with time: for a name from an address, for the address, and
for the name from anywhere. An address from which the person has logged in before is not subject to
the last one, so that an attacker elsewhere cannot lock the person out. In memory: the figures hold
for each admin by itself.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tickwheel_admin.domain.errors import TooMany

V = TypeVar("V")

MAX_KEYS = 20_000  # of each kind; the least recently used are forgotten


@dataclass(frozen=True, slots=True)
class _Limit:
    burst: int  # failures heard at once
    seconds_each: float  # one more is allowed every so often


_PAIR = _Limit(burst=5, seconds_each=10)
_ADDRESS = _Limit(burst=40, seconds_each=3)  # an office may share one address
_NAME = _Limit(burst=50, seconds_each=30)

_FREE_FAILURES = 2
_FIRST_DELAY_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Leave to check one password."""

    delay_seconds: float  # wait so long first; rises with each failure
    keys: tuple[tuple[str, str], ...]
    pair: tuple[str, str]


class LoginThrottle:
    """Admits attempts. Each counts as a failure until it is reported to have succeeded."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._spent: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._familiar: OrderedDict[tuple[str, str], None] = OrderedDict()

    def admit(self, name: str, address: str) -> Admission:
        """Leave for one attempt.

        Raises:
            TooMany: with the seconds until one more attempt is heard.
        """
        network = network_of(address)
        pair = (name, network)
        limits = {("pair", f"{name}\0{network}"): _PAIR, ("address", network): _ADDRESS}
        if pair not in self._familiar:
            limits["name", name] = _NAME
        wait = max(self._wait(key, limit) for key, limit in limits.items())
        if wait > 0:
            raise TooMany(
                "login.too_many",
                "Too many failed logins; try again in %(retry_after_seconds)s seconds.",
                retry_after_seconds=int(wait) + 1,
            )
        failures = 0.0
        for key, limit in limits.items():
            spent = self._level(key, limit) + 1
            self._remember(self._spent, key, (spent, self._now()))
            failures = max(failures, spent if limit is _PAIR else 0)
        slowed = max(0, int(failures) - _FREE_FAILURES)
        delay = _FIRST_DELAY_SECONDS * 2 ** (slowed - 1) if slowed else 0
        return Admission(delay_seconds=delay, keys=tuple(limits), pair=pair)

    def succeeded(self, admission: Admission) -> None:
        """The password was right: nothing of this attempt counts, and the address is familiar."""
        for key in admission.keys:
            if key[0] == "pair":
                self._spent.pop(key, None)
            elif key in self._spent:
                spent, at = self._spent[key]
                self._spent[key] = (max(0, spent - 1), at)
        self._remember(self._familiar, admission.pair, None)

    def _level(self, key: tuple[str, str], limit: _Limit) -> float:
        spent, at = self._spent.get(key, (0.0, 0.0))
        return max(0.0, spent - (self._now() - at) / limit.seconds_each)

    def _wait(self, key: tuple[str, str], limit: _Limit) -> float:
        return (self._level(key, limit) + 1 - limit.burst) * limit.seconds_each

    @staticmethod
    def _remember(store: OrderedDict[tuple[str, str], V], key: tuple[str, str], value: V) -> None:
        store[key] = value
        store.move_to_end(key)
        if len(store) > MAX_KEYS:
            store.popitem(last=False)


def network_of(address: str) -> str:
    """One household: an IPv4 address, or the /64 that an IPv6 subscriber chooses addresses from."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed.ipv4_mapped if parsed.version == 6 else parsed)
