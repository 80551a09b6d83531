"""Which addresses the channels of alarms reach: public ones, and networks that are named."""

from __future__ import annotations

import pytest

from tickwheel_admin.domain.network_guard import ForbiddenAddress, alarm_guard


@pytest.mark.parametrize(
    "ip", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]
)
def test_public_addresses_are_called(ip: str) -> None:
    alarm_guard([]).check(ip)


@pytest.mark.parametrize(
    "ip",
    [
        "10.0.0.1", "127.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "192.0.2.1",
        "198.18.0.1", "0.0.0.0", "255.255.255.255", "::1", "::", "fc00::1", "fec0::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "::127.0.0.1", "2001:db8::1",
        "2606:4700::5efe:a00:1", "400::1", "ff0e::1", "x", "",
    ],
)  # fmt: skip
def test_others_are_not(ip: str) -> None:
    with pytest.raises(ForbiddenAddress):
        alarm_guard([]).check(ip)


def test_networks_are_named_in_addition_and_some_never() -> None:
    guard = alarm_guard(["10.0.0.0/8", "0.0.0.0/0", "::/0"])
    for ip in ("10.1.2.3", "192.168.0.1", "fd12::1", "93.184.216.34"):
        guard.check(ip)
    for ip in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "224.0.0.1"):
        with pytest.raises(ForbiddenAddress, match="never called"):
            guard.check(ip)
