"""What people say of executors of the protocol `xxl_job`."""

from __future__ import annotations

import json
from ipaddress import ip_network

import pytest

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.executors.xxl_addresses import DEFAULT_NETWORKS, normalise
from tickwheel_admin.domain.executors.xxl_job import (
    PARAMETER_SCHEMA,
    normal_address,
    read_settings,
)
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.domain.input.parameter_schema import parameter_problems
from tickwheel_admin.domain.network_guard import is_forbidden
from tickwheel_admin.domain.runs.blocking import WhenCutOff


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("http://10.0.0.5:9999/", "http://10.0.0.5:9999"),
        (" HTTP://Orders.Internal:9999// ", "http://orders.internal:9999"),
        ("https://orders_1:8443/job/", "https://orders_1:8443/job"),
        ("http://[FD00:0:0::1]:9999/", "http://[fd00::1]:9999"),
        ("http://orders", "http://orders:80"),
        ("http://orders:80", "http://orders:80"),
        ("http://2130706433:9999", "http://127.0.0.1:9999"),
    ],
)
def test_an_address_has_one_form(typed: str, kept: str) -> None:
    assert normal_address(typed) == kept
    assert normal_address(kept) == kept
    assert normalise(typed) == kept  # what an executor registers


@pytest.mark.parametrize(
    "typed",
    [
        "", "10.0.0.5:9999", "ftp://10.0.0.5", "http://", "http://:9999", "http://h:0", "http://h:x",
        "http://h:70000", "http://user@h", "http://user:p@h", "http://h/?a=b", "http://h/#x",
        "http://h/?", "http://a b", "http://h/a b", "http://h\nost", "http://h/\\x", "http://[::1",
        "http://[fe80::1%25eth0]:1", "http://h/\u202e", "http://é", "http://" + "h" * 300,
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(typed: str) -> None:
    assert normal_address(typed) is None


def test_every_problem_is_told_and_no_token() -> None:
    _settings, problems = read_settings(
        app_name="ab", token="s3cret token", addresses=["http://ok:1", "nonsense"]
    )

    assert [(each.field, each.code) for each in problems] == [
        ("xxl_job.app_name", "executor.app_name_invalid"),
        ("xxl_job.token", "executor.xxl_token_invalid"),
        ("xxl_job.addresses[1]", "executor.address_invalid"),
    ]
    assert "s3cret" not in "".join(each.message for each in problems)


def test_an_empty_token_is_refused_with_the_way_out() -> None:
    _settings, (problem,) = read_settings(app_name="orders", token="", addresses=None)

    assert problem.code == "executor.xxl_token_empty"
    assert "xxl.job.accessToken" in problem.message


def test_addresses_are_kept_once_and_a_token_is_in_no_repr() -> None:
    settings, problems = read_settings(
        app_name=" 订单服务 ", token="default_token", addresses=["http://h:1/", "http://H:1"]
    )

    assert problems == []
    assert (settings.app_name, settings.addresses) == ("订单服务", ("http://h:1",))
    assert "default_token" not in repr(settings)


@pytest.mark.parametrize(
    ("addresses", "code"),
    [([], "out_of_range"), ([f"http://h:{n}" for n in range(1, 202)], "out_of_range")],
)
def test_there_are_1_to_200_addresses(addresses: list[str], code: str) -> None:
    _settings, problems = read_settings(app_name="orders", token="t", addresses=addresses)

    assert [each.code for each in problems] == [code]


def test_link_local_and_metadata_networks_are_forbidden() -> None:
    for text in (
        "169.254.169.254/32",
        "169.254.0.0/16",
        "fe80::/64",
        "fd00:ec2::254/128",
        "0.0.0.0",
        "240.0.0.0/4",
        "192.0.0.192/32",
        "fd00:c1::/32",
        "fd20:ce::/32",
    ):
        assert is_forbidden(ip_network(text)), text
    for network in (*DEFAULT_NETWORKS, ip_network("0.0.0.0/0"), ip_network("203.0.113.0/24")):
        assert not is_forbidden(network)


def test_handlers_take_one_text() -> None:
    def problems(parameters: object) -> list[str]:
        found = parameter_problems(PARAMETER_SCHEMA, json.dumps(parameters))
        return [each.code for each in found]

    assert problems({}) == []
    assert problems({"param": "a\nb"}) == []
    assert problems({"param": "x" * 65_536}) == []
    assert problems({"param": "x" * 65_537}) != []
    assert problems({"param": 5}) != []
    assert problems({"parameter": "a"}) != []


def test_a_run_of_such_an_executor_goes_on_when_its_node_is_cut_off() -> None:
    job = {"name": "orders", "handler": "sync", "blocking": "serial"}

    config = parse_job(job, Protocol.XXL_JOB)
    assert config.blocking.when_cut_off is WhenCutOff.CONTINUE
    assert parse_job(job).blocking.when_cut_off is WhenCutOff.STOP
    parallel = parse_job({**job, "blocking": "parallel"}, Protocol.XXL_JOB)
    assert parallel == parse_job({**job, "blocking": "parallel"})
    with pytest.raises(InvalidInput, match="cannot stop a run by themselves"):
        parse_job({**job, "when_cut_off": "stop"}, Protocol.XXL_JOB)
