"""Requests to the API: what is repeated, what is not, and how errors are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.admin.channels.certificates import certificate_pem, server_tls
from tests.admin.cli.client.scripted import TOKEN, Scripted, error, scripted
from tests.support.processes import free_port
from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.errors import ApiRefused, NotReached, UsageFailure
from tickwheel_admin.cli.client.target import Target


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def api(admin: Scripted, pauses: list[float]) -> AdminApi:
    """With a dead admin before the one that answers."""
    dead = f"http://127.0.0.1:{free_port()}"
    target = Target(urls=(dead, admin.url), token=TOKEN, ca_file=None)
    return AdminApi(target, seconds=5, sleep=pauses.append)


def test_a_read_goes_to_the_admin_that_answers(admin: Scripted, api: AdminApi) -> None:
    admin.will((200, {"id": 7}), (200, {"id": 8}))
    with api:
        assert api.get("/jobs/7", text="a b", cursor=None) == {"id": 7}
        assert api.url == admin.url
        assert api.get("/jobs/8") == {"id": 8}
    assert admin.asked[0].path == "/api/v1/jobs/7?text=a+b"
    assert admin.asked[0].headers["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "call",
    [lambda api: api.get("/jobs/7"), lambda api: api.post("/jobs/7/run", {}, key="k")],
    ids=["read", "write with a key"],
)
def test_what_may_arrive_twice_is_repeated(
    call: Callable[[AdminApi], Any], admin: Scripted, api: AdminApi, pauses: list[float]
) -> None:
    admin.will(None, (503, error("database.unavailable")), (502, "<html>"), (200, {"id": 7}))
    with api:
        assert call(api) == {"id": 7}
    assert len(admin.asked) == 4
    assert pauses == [0.2, 0.5, 1.0]
    assert len({each.headers.get("Idempotency-Key") for each in admin.asked}) == 1


@pytest.mark.parametrize("answer", [None, (502, "<html>")], ids=["broken off", "proxy"])
def test_a_write_without_a_key_is_sent_once(
    answer: tuple[int, Any] | None, admin: Scripted, api: AdminApi
) -> None:
    admin.will(answer)
    with api, pytest.raises((NotReached, ApiRefused)):
        api.post("/jobs/7/pause")
    assert len(admin.asked) == 1


def test_nobody_there_is_told_with_every_address(pauses: list[float]) -> None:
    urls = tuple(f"http://127.0.0.1:{free_port()}" for _ in range(2))
    api = AdminApi(Target(urls=urls, token=None, ca_file=None), sleep=pauses.append)
    with api, pytest.raises(NotReached) as told:
        api.get("/jobs")
    assert all(f"{url}: Connection refused" in str(told.value) for url in urls)
    assert told.value.exit_code == 3


@pytest.mark.parametrize(
    ("status", "exit_code"), [(401, 4), (403, 4), (404, 5), (409, 1), (422, 1), (500, 1)]
)
def test_an_error_has_its_code_its_fields_and_an_exit_code(
    status: int, exit_code: int, admin: Scripted, api: AdminApi
) -> None:
    problems = [{"field": "triggers[0].expression", "code": "cron.invalid", "message": "Bad."}]
    admin.will((status, error("some.code", problems=problems)))
    with api, pytest.raises(ApiRefused) as told:
        api.get("/jobs")
    lines = str(told.value).splitlines()
    assert lines[:2] == [
        "It cannot be done. (some.code)",
        "  triggers[0].expression: Bad. (cron.invalid)",
    ]
    assert ("abc" in lines[-1]) == (status == 500)
    assert (told.value.exit_code, told.value.code) == (exit_code, "some.code")


@pytest.mark.parametrize("answer", [(200, "<html>"), (302, ""), (404, "<html>")])
def test_what_is_no_admin_is_told_so(
    answer: tuple[int, Any], admin: Scripted, api: AdminApi
) -> None:
    admin.will(answer)
    with api, pytest.raises(ApiRefused, match=f"at {admin.url} is no Tickwheel admin") as told:
        api.get("/jobs")
    assert ("elsewhere.example" in str(told.value)) == (answer[0] == 302)
    assert told.value.exit_code == 3


def test_a_list_asks_for_no_page_more_than_it_needs(admin: Scripted, api: AdminApi) -> None:
    first = {"items": [{"id": each} for each in range(500)], "next": "c1"}
    admin.will((200, first), (200, {"items": [{"id": 500}, {"id": 501}], "next": "c2"}))
    with api:
        found = list(api.pages("/runs", most=502, state="failed"))
    assert len(found) == 502
    assert [each.path for each in admin.asked] == [
        "/api/v1/runs?state=failed&limit=500",
        "/api/v1/runs?state=failed&limit=2&cursor=c1",
    ]


def test_only_a_server_with_a_trusted_certificate_gets_the_token(
    tmp_path: Path, pauses: list[float]
) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(certificate_pem())
    with scripted(server_tls()) as server:
        server.will((200, {"id": 7}))
        trusting = Target(urls=(server.url,), token=TOKEN, ca_file=str(file))
        with AdminApi(trusting, sleep=pauses.append) as api:
            assert api.get("/jobs/7") == {"id": 7}
        with AdminApi(replace(trusting, ca_file=None)) as api, pytest.raises(NotReached) as told:
            api.get("/jobs/7")
        assert "is not trusted" in str(told.value)
        assert "--ca-file" in str(told.value)
        file.write_text("nothing")
        with AdminApi(trusting) as api, pytest.raises(UsageFailure, match="has no certificates"):
            api.get("/jobs/7")
        assert len(server.asked) == 1
