"""Server-side request forgery: what jobs may not reach through this machine."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from tickwheel_executor.offers.http import Http, connector
from tickwheel_executor.offers.http.addresses import AddressPolicy, host_rules

from .conftest import Call, offer_with
from .server import Exchange, ScriptedServer


def policy(private: list[str] | None = None, only: list[str] | None = None) -> AddressPolicy:
    return AddressPolicy(private=host_rules(private or [])[0], only=host_rules(only or [])[0])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1",
        "169.254.169.254",  # metadata of most clouds
        "100.100.100.200",  # of Alibaba, in the range of carriers
        "168.63.129.16",  # Azure's host
        "192.0.0.192", "198.18.0.1", "192.88.99.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "[::]", "[::1]", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]",
        "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]", "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]",
        "[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "[3fff::1]", "[5f00::1]",
        "localhost", "2130706433", "127.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001",
        "127.0.0.1.", "１２７.0.0.1", "LOCALHOST", "①②⑦.0.0.1", "0",
    ],
)  # fmt: skip
async def test_addresses_that_are_not_public_are_refused(call: Call, host: str) -> None:
    end = await call(offer_with(), url=f"http://{host}:9/latest?token=geheim", timeout_seconds=5)
    assert end.outcome == "failed"
    assert end.final, end.message
    assert "refused" in end.message or "not a URL" in end.message
    assert "geheim" not in end.message


@pytest.mark.parametrize(
    "host", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"]
)
def test_public_addresses_may_be_called(host: str) -> None:
    assert policy().why_not_host(host, 443) is None


@pytest.mark.parametrize(
    ("private", "host", "address", "may"),
    [
        (["db.corp.example"], "db.corp.example", "10.0.0.1", True),
        (["db.corp.example"], "DB.corp.example.", "10.0.0.1", True),
        (["*.corp.example"], "db.corp.example", "10.0.0.1", True),
        (["*.corp.example"], "corp.example", "10.0.0.1", False),
        (["*.corp.example"], "evilcorp.example", "10.0.0.1", False),
        (["db.corp.example:80"], "db.corp.example", "10.0.0.1", False),
        (["db.corp.example:8080"], "db.corp.example", "10.0.0.1", True),
        (["10.0.0.0/8"], "any.example", "10.0.0.1", True),
        (["10.0.0.0/8"], "any.example", "::ffff:10.0.0.1", True),
        (["10.0.0.0/8"], "any.example", "192.168.0.1", False),
        (["meta.example"], "meta.example", "169.254.169.254", False),
        (["meta.example"], "meta.example", "::ffff:169.254.169.254", False),
        (["169.254.169.254"], "meta.example", "169.254.169.254", True),
        (["::1"], "any.example", "::1", True),
    ],
)
def test_owners_allow_by_name_and_network(
    private: list[str], host: str, address: str, may: bool
) -> None:
    why = policy(private).why_not_address(host, 8080, ip_address(address))
    assert (why is None) is may, why


def test_owners_can_limit_calls_to_some_hosts() -> None:
    limited = policy(only=["api.example.com:443", "93.184.0.0/16"])
    assert limited.why_not_host("api.example.com", 443) is None
    assert limited.why_not_host("api.example.com", 80) is None, "its addresses decide"
    public = ip_address("8.8.8.8")
    assert limited.why_not_address("api.example.com", 443, public) is None
    assert "not among the hosts" in str(limited.why_not_address("api.example.com", 80, public))
    assert limited.why_not_address("x.example", 80, ip_address("93.184.215.14")) is None
    assert limited.why_not_host("8.8.8.8", 80) is not None
    assert limited.why_not_host("x.example", 80, by_proxy=True) is not None
    inside = ip_address("10.0.0.1")
    assert "not public" in str(limited.why_not_address("api.example.com", 443, inside))


class Rebinding(AbstractResolver):
    """Every look-up has another answer."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked += 1
        return [
            ResolveResult(
                hostname=host, host=each, port=port, family=socket.AF_INET, proto=0, flags=0
            )
            for each in self.answers.pop(0)
        ]

    async def close(self) -> None:
        """Nothing is open."""


async def test_a_name_is_looked_up_once_and_called_at_what_was_checked(
    server: ScriptedServer, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def welcome(exchange: Exchange) -> None:
        await exchange.answer(b"ok")

    server.script = welcome
    resolver = Rebinding(["127.0.0.1"], ["127.0.0.2"])
    monkeypatch.setattr(connector, "ThreadedResolver", lambda: resolver)
    offer = offer_with("127.0.0.1")  # not 127.0.0.2
    assert (await call(offer, url=f"http://rebind.example:{server.port}/")).succeeded
    assert resolver.asked == 1
    end = await call(offer, url=f"http://rebind.example:{server.port}/")
    assert "rebind.example is 127.0.0.2, which is not public" in end.message
    assert len(server.exchanges) == 1


async def test_one_refused_address_of_a_name_refuses_the_name(
    server: ScriptedServer, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = Rebinding(["93.184.215.14", "169.254.169.254"])
    monkeypatch.setattr(connector, "ThreadedResolver", lambda: resolver)
    end = await call(offer_with(), url="http://both.example/")
    assert "both.example is 169.254.169.254" in end.message
    assert end.final


@pytest.mark.parametrize(
    ("location", "allowed"),
    [
        ("http://169.254.169.254/latest/meta-data", "any_host"),
        ("http://[::ffff:169.254.169.254]/", "any_host"),
        ("http://localhost4.invalid@127.0.0.3:1/", "any_host"),
        ("//127.0.0.2/", "any_host"),
        ("http://2130706433/", "any_host"),
    ],
)
async def test_redirects_to_refused_addresses(
    server: ScriptedServer, call: Call, location: str, allowed: Any
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(b"", 302, f"Location: {location}")

    server.script = script
    end = await call(redirects=allowed)
    assert end.message.startswith("refused: ")


async def test_names_in_other_scripts_are_compared_as_they_are_looked_up(
    server: ScriptedServer, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def welcome(exchange: Exchange) -> None:
        await exchange.answer(b"ok")

    server.script = welcome
    monkeypatch.setattr(connector, "ThreadedResolver", lambda: Rebinding(["127.0.0.1"]))
    name = "xn--bcher-kva.example"
    offer = Http(private=[name], only=[name])
    end = await call(offer, url=f"http://b\u00fccher.example:{server.port}/")
    assert end.succeeded, end.message


async def test_proxies_of_the_environment_are_not_used(
    server: ScriptedServer, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def welcome(exchange: Exchange) -> None:
        await exchange.answer(b"ok")

    server.script = welcome
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await call()).succeeded


async def test_a_configured_proxy_gets_the_calls_and_never_literal_private_addresses(
    server: ScriptedServer, call: Call
) -> None:
    async def proxied(exchange: Exchange) -> None:
        await exchange.answer(b"by proxy")

    server.script = proxied
    offer = Http(proxy=server.url)
    end = await call(offer, url="http://api.example/x", result="text")
    assert end.result["body"] == "by proxy"
    assert server.exchanges[0].head.startswith("GET http://api.example/x HTTP/1.1")
    assert "refused" in (await call(offer, url="http://127.0.0.1/")).message
    assert len(server.exchanges) == 1
    down = Http(proxy="http://anna:geheim@127.0.0.1:1")
    end = await call(down, url="http://api.example/x")
    assert "the proxy cannot be reached" in end.message
    assert "geheim" not in end.message
