"""Addresses that executors tell us: one spelling, and never where nobody must be called."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from tests.admin.xxl_job.fake_names import FakeNames
from tests.admin.xxl_job.recordings import exchanges
from tickwheel_admin.xxl_job.addresses import (
    AddressGuard,
    ForbiddenAddress,
    GuardedResolver,
    InvalidAddress,
    check_literal,
    join,
    literal_ip,
    normalise,
)
from tickwheel_admin.xxl_job.dialects import BadRequest, read_registry

ANYWHERE = AddressGuard(("0.0.0.0/0", "::/0"))


@pytest.mark.parametrize(
    ("address", "spelling"),
    [
        ("http://10.0.0.1:9999/", "http://10.0.0.1:9999"),
        ("http://10.0.0.1:9999", "http://10.0.0.1:9999"),
        ("  HTTP://Billing.Example.:9999/\n", "http://billing.example:9999"),
        ("http://billing", "http://billing:80"),
        ("https://billing/", "https://billing:443"),
        ("http://billing_1:8080//job//", "http://billing_1:8080/job"),
        ("http://10.0.0.1:9999/job", "http://10.0.0.1:9999/job"),
        ("http://[::1]:9999/", "http://[::1]:9999"),
        ("http://[FD00:0:0::1]:9999/", "http://[fd00::1]:9999"),
        ("http://[::ffff:127.0.0.1]:9/", "http://[::ffff:7f00:1]:9"),
        # As the system's resolver reads them: what is checked must be what is called.
        ("http://127.1:9999", "http://127.0.0.1:9999"),
        ("http://2130706433:9999", "http://127.0.0.1:9999"),
        ("http://0x7f000001:9999", "http://127.0.0.1:9999"),
        ("http://0x7F.0x0.0.1:9999", "http://127.0.0.1:9999"),
        ("http://0177.0.0.01:9999", "http://127.0.0.1:9999"),
        ("http://0xa9fea9fe", "http://169.254.169.254:80"),
        ("http://169.16689662:80", "http://169.254.169.254:80"),
    ],
)
def test_an_address_has_one_spelling(address: str, spelling: str) -> None:
    assert normalise(address) == spelling
    assert normalise(spelling) == spelling


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "begins with"),
        ("10.0.0.1:9999", "begins with"),
        ("//10.0.0.1:9999", "begins with"),
        ("ftp://10.0.0.1:9999", "begins with"),
        ("file:///etc/passwd", "begins with"),
        ("gopher://10.0.0.1:6379/_SET", "begins with"),
        ("http:10.0.0.1", "begins with"),
        ("http://", "begins with"),
        ("http://:9999", "no name"),
        ("http://user@10.0.0.1:9999", "no user"),
        ("http://10.0.0.1:9999@169.254.169.254/", "no user|cannot be read"),
        ("http://10.0.0.1:9999/?x=1", "no query"),
        ("http://10.0.0.1:9999?", "no query"),
        ("http://10.0.0.1:9999/#", "no query"),
        ("http://10.0.0.1#@169.254.169.254/", "no query"),
        ("http://10.0.0.1\\@169.254.169.254/", "printable"),
        ("http://10.0.0.1:9999/a b", "printable"),
        ("http://10.0.0.1:9999/\r\nX: y", "printable"),
        ("http://10.0.0.1:9999/\0", "printable"),
        ("http://１２７.0.0.1:9999", "printable"),
        ("http://127。0。0。1:9999", "printable"),
        ("http://10.0.0.1:0", "port 0"),
        ("http://10.0.0.1:65536", "cannot be read"),
        ("http://10.0.0.1:-1", "cannot be read"),
        ("http://10.0.0.1:+80", "cannot be read"),
        ("http://10.0.0.1:9_9", "cannot be read"),
        ("http://10.0.0.1:80:80", "cannot be read"),
        ("http://256.1.1.1:80", "cannot be read"),
        ("http://1.0x:80", "cannot be read"),
        ("http://0x1_2.1:80", "cannot be read"),
        ("http://1.2.65536", "cannot be read"),
        ("http://1.2.3.4.5:80", "cannot be read"),
        ("http://4294967296", "cannot be read"),
        ("http://0x100000000", "cannot be read"),
        ("http://08.0.0.1", "cannot be read"),
        ("http://[::1", "cannot be read"),
        ("http://[10.0.0.1]:80", "cannot be read"),
        ("http://[v1.x]:80", "cannot be read"),
        ("http://[fe80::1%25eth0]:80", "zone"),
        ("http://[fe80::1%eth0]:80", "zone"),
        ("http://-x:80", "no name"),
        ("http://a..b:80", "no name"),
        ("http://127.0.0.1%2f:80", "no name"),
        ("http://" + "a" * 260 + ":80", "no name"),
        ("http://a:80/" + "b" * 300, "300"),
        ("http://a/" + "b" * 290, "300"),
        ("http://a:80/../x", r"no \."),
        ("http://a:80/%2e%2E/x", r"no \."),
        ('http://a:80/"><script>', "path"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(address: str, reason: str) -> None:
    with pytest.raises(InvalidAddress, match=reason):
        normalise(address)


def test_addresses_of_real_executors() -> None:
    for one in exchanges(to_executor=False):
        if "registry" in one.path:
            try:
                sent = read_registry(one.body).address
            except BadRequest:
                continue
            assert normalise(sent) == sent.rstrip("/")


def test_paths_are_joined_with_one_slash() -> None:
    for address, path in (
        ("http://a:1", "/run"),
        ("http://a:1/", "/run"),
        ("http://a:1/", "run"),
    ):
        assert join(address, path) == "http://a:1/run"
    assert join(normalise("http://a:1/job/"), "/run") == "http://a:1/job/run"


def test_only_ip_addresses_are_literals() -> None:
    assert literal_ip("http://[::1]:80") == ip_address("::1")
    assert literal_ip("http://10.0.0.1:80/job") == ip_address("10.0.0.1")
    assert literal_ip("http://billing:80") is None


@pytest.mark.parametrize(
    "ip",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.31.0.1",
        "192.168.0.1",
        "::1",
        "fd12::1",
        "::ffff:10.1.2.3",
        "64:ff9b::10.1.2.3",
    ],
)
def test_private_addresses_are_called_when_nothing_is_set(ip: str) -> None:
    AddressGuard().check(ip)


@pytest.mark.parametrize(
    "ip",
    [
        "8.8.8.8",
        "172.32.0.1",
        "100.64.0.1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "::8.8.8.8",
        "2002:808:808::1",
        "64:ff9b::8.8.8.8",
        "2001:0:808:808::f7f7:f7f7",
        "fec0::1",
    ],
)
def test_others_are_not(ip: str) -> None:
    with pytest.raises(ForbiddenAddress, match="outside xxl_job_networks"):
        AddressGuard().check(ip)


@pytest.mark.parametrize(
    "ip",
    [
        "169.254.169.254",
        "169.254.0.1",
        "::ffff:169.254.169.254",
        "::ffff:a9fe:a9fe",
        "::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2001:0:a9fe:a9fe::1",
        "2001:0:102:304:0:0:5601:5601",  # Teredo, its client's address inverted
        "fd12::5efe:a9fe:a9fe",
        "fd12::200:5efe:a9fe:a9fe",
        "fe80::1",
        "fe80::1%eth0",
        "febf::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "::ffff:0.0.0.0",
        "224.0.0.1",
        "239.255.255.250",
        "ff02::1",
        "255.255.255.255",
        "240.0.0.1",
    ],
)
def test_some_are_never_called_whatever_is_set(ip: str) -> None:
    with pytest.raises(ForbiddenAddress, match="never called"):
        ANYWHERE.check(ip)
    with pytest.raises(ForbiddenAddress):
        AddressGuard((f"{ip.partition('%')[0]}",)).check(ip)


@pytest.mark.parametrize("ip", ["", "billing", "127.1", "0x7f.0.0.1", "2130706433", "1.2.3.4/32"])
def test_what_is_no_ip_address_is_not_called(ip: str) -> None:
    with pytest.raises(ForbiddenAddress, match="no IP address"):
        ANYWHERE.check(ip)


def test_networks_that_are_none_are_refused() -> None:
    for network in ("10.0.0.1/8", "10.0.0.0/33", "private", ""):
        with pytest.raises(ValueError, match=r"network|host bits|address"):
            AddressGuard((network,))


def test_a_literal_is_checked_in_each_spelling() -> None:
    for address in (
        "http://169.254.169.254/latest",
        "http://2852039166",
        "http://0xA9FEA9FE",
        "http://0251.0376.0251.0376",
        "http://[::ffff:a9fe:a9fe]",
        "http://[::a9fe:a9fe]:80",
    ):
        with pytest.raises(ForbiddenAddress):
            check_literal(ANYWHERE, normalise(address))
    check_literal(ANYWHERE, "http://billing:80")  # is checked when it is resolved


async def test_a_name_gives_only_addresses_that_may_be_called() -> None:
    names = FakeNames({"billing": [["169.254.169.254", "10.0.0.7", "fe80::1%2", "8.8.8.8"]]})
    found = await GuardedResolver(AddressGuard(), names).resolve("billing", 80)
    assert [one["host"] for one in found] == ["10.0.0.7"]


@pytest.mark.parametrize(
    "addresses",
    [
        ["169.254.169.254"],
        ["8.8.8.8", "1.1.1.1"],
        ["fe80::1%lo"],
        ["::ffff:169.254.169.254"],
        ["0.0.0.0"],
        [],
    ],
)
async def test_a_name_without_such_an_address_is_refused(addresses: list[str]) -> None:
    resolver = GuardedResolver(AddressGuard(), FakeNames({"billing": [addresses]}))
    with pytest.raises(ForbiddenAddress, match="billing"):
        await resolver.resolve("billing", 80)


async def test_a_name_is_checked_each_time_it_is_resolved() -> None:
    names = FakeNames({"billing": [["10.0.0.7"], ["169.254.169.254"]]})
    resolver = GuardedResolver(AddressGuard(), names)
    assert len(await resolver.resolve("billing", 80)) == 1
    with pytest.raises(ForbiddenAddress):
        await resolver.resolve("billing", 80)


async def test_the_systems_resolver_is_guarded_too() -> None:
    resolver = GuardedResolver(AddressGuard())
    try:
        found = await resolver.resolve("localhost", 8080)
        assert {one["host"] for one in found} <= {"127.0.0.1", "::1"}
        assert all(one["port"] == 8080 for one in found)
        # It reads these as addresses, which nothing before it does.
        for spelling in ("0xa9fea9fe", "169.254.43518", "0"):
            with pytest.raises(ForbiddenAddress):
                await resolver.resolve(spelling, 80)
        with pytest.raises(OSError, match=r"."):
            await resolver.resolve("no-such-name.invalid", 80)
    finally:
        await resolver.close()
