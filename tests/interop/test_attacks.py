"""Attacks on what executors of XXL-JOB call, and by what they answer, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout, web

from tests.e2e.cluster import AdminProcess, Cluster
from tests.interop.clients import OWN_C
from tests.interop.teams import Team, make_team
from tests.support.nightly import often
from tests.support.polling import wait_until
from tests.support.processes import free_port
from tickwheel_admin.domain.xxl_job.bridge import MAX_REGISTERED, REGISTRATION_MS
from tickwheel_admin.services.xxl_job.refusals import AGAIN_SECONDS

TOKEN = "sesame-open"
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Bridge:
    """A real admin with two executors of the protocol, of different tokens."""

    cluster: Cluster
    admin: AdminProcess
    own: Team
    other: Team

    async def post(
        self, path: str, body: object, *, token: str = TOKEN, base: str = "/api", **headers: str
    ) -> dict[str, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"XXL-JOB-ACCESS-TOKEN": token} | headers
        async with (
            ClientSession(timeout=ClientTimeout(total=60)) as session,
            session.post(f"{self.admin.url}{base}/{path}", data=data, headers=sent) as response,
        ):
            assert response.status == 200
            answer: dict[str, Any] = await response.json()
            assert answer["success"] is (answer["code"] == 200)
            return answer

    async def refused(self, kind: str, path: str, body: object, **more: Any) -> str:
        """Why; it is told as this protocol tells it, and written into log and audit."""
        before = len(self.audited(kind))
        answer = await self.post(path, body, **more)
        assert answer["code"] == 500, answer
        logged = f'"kind": "{kind}"'
        await asyncio.to_thread(
            wait_until, lambda: logged in self.admin.process.output(), what=f"{kind} in the log"
        )
        if not before:
            await asyncio.to_thread(
                wait_until, lambda: self.audited(kind), what=f"{kind} in the audit"
            )
        assert len(self.audited(kind)) <= 1  # a minute has not passed: nobody fills the table
        return str(answer["msg"])

    def audited(self, kind: str) -> list[Any]:
        found = self.cluster.api().get("/audit?limit=500")["items"]
        return [
            each
            for each in found
            if each["action"] == "executor.xxl_refused" and each["detail"]["kind"] == kind
        ]


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    directory = tmp_path_factory.mktemp("attacks")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
            patch.delenv(name)
        with Cluster(directory, f"sqlite:///{directory}/tickwheel.db") as cluster:
            admin = cluster.start_admin()
            own = make_team(cluster, OWN_C, directory / "own", app="own-app")
            other = make_team(cluster, OWN_C, directory / "other", app="other-app", token="another")
            yield Bridge(cluster, admin, own, other)


def registration(app: str = "own-app", address: str = "http://127.0.0.1:9/") -> dict[str, str]:
    return {"registryGroup": "EXECUTOR", "registryKey": app, "registryValue": address}


@pytest.mark.parametrize("token", ["", "forged", "x" * 7000, "sesame-ope\xf1"])
async def test_a_forged_token_is_refused_before_the_body_is_read(
    bridge: Bridge, token: str
) -> None:
    for path in ("registry", "registryRemove", "callback"):
        for base in ("/api", "/xxl-job-admin/api"):
            said = await bridge.refused("token_wrong", path, b"{", token=token, base=base)
            assert said == "The access token is wrong."
    headers = {"XXL-JOB-APPNAME": "other-app"}  # right token, and the name of another
    await bridge.refused("token_wrong", "registry", registration("other-app"), **headers)


async def test_nobody_registers_for_somebody_elses_app_name(bridge: Bridge) -> None:
    said = await bridge.refused("foreign_app", "registry", registration("other-app"))
    assert said == "That is not the access token of “other-app”."
    await bridge.refused("foreign_app", "registryRemove", registration("other-app"))
    said = await bridge.refused("app_unknown", "registry", registration("n" * 5000))
    assert len(said) < 200
    assert bridge.other.executor()["xxl_job"]["known_addresses"] == []


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]:80/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://2852039166/",  # 169.254.169.254
        "http://0xa9.0xfe.0xa9.0xfe/",
        "http://0251.0376.0251.0376/",
        "http://[fe80::1]:80/",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://0.0.0.0:8500/",
        "http://8.8.8.8:80/",
        "http://[2001:db8::1]/",
        "http://[2002:a9fe:a9fe::]/",
    ],
)
async def test_an_address_that_is_never_called_cannot_be_registered(
    bridge: Bridge, address: str
) -> None:
    said = await bridge.refused("address_forbidden", "registry", registration(address=address))
    assert "never called" in said or "xxl_job_networks" in said


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "http://user:password@127.0.0.1/",
        "http://127.0.0.1/../admin",
        "http://127.0.0.1/?x=",
        "http://127.0.0.1 /",
        "http://[fe80::1%25eth0]/",
        "gopher://127.0.0.1:6379/_",
        "http://127.0.0.1:99999/",
        "http://" + "a" * 2000,
        "http://127.0.0.1\r\nX: y/",
    ],
)
async def test_what_is_no_address_of_an_executor_cannot_be_registered(
    bridge: Bridge, address: str
) -> None:
    await bridge.refused("address_invalid", "registry", registration(address=address))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("registry", b""),
        ("registry", b"null"),
        ("registry", b"[]"),
        ("registry", b'{"registryKey":1,"registryValue":[]}'),
        ("registry", b"[" * 100_000),
        ("registry", b'{"registryKey":"' + b"x" * 100_000),
        ("callback", b"{}"),
        ("callback", b'[{"logId":"x"}]'),
        ("callback", b'[{"logId":1e400,"handleCode":200}]'),
        ("callback", b'[{"logId":' + b"9" * 5000 + b',"handleCode":200}]'),
        ("callback", b"[" + b'{"logId":1,"handleCode":200},' * 10_001 + b"{}]"),
    ],
)
async def test_broken_bodies_are_refused_with_the_place(
    bridge: Bridge, path: str, body: bytes
) -> None:
    said = await bridge.refused("unreadable", path, body)
    assert 0 < len(said) < 400


async def test_a_callback_of_a_gigabyte_is_not_read(bridge: Bridge) -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b"["
        for _ in range(1024):
            sent += MIB
            yield b" " * MIB

    headers = {"XXL-JOB-ACCESS-TOKEN": TOKEN}
    # How far the sender comes tells whether it was read; this bound only ends a test that hangs.
    async with ClientSession(timeout=ClientTimeout(total=600)) as session:
        try:
            async with session.post(
                f"{bridge.admin.url}/api/callback", data=body(), headers=headers
            ) as response:
                # Refused by the server as a whole, or by the endpoint.
                assert response.status in (200, 413)
                if response.status == 200:
                    assert (await response.json())["code"] == 500
        except (ClientError, ConnectionError):
            pass  # it was hung up on while it still sent
    assert sent < 100 * MIB
    assert (await bridge.post("callback", []))["code"] == 200, "it answers others as before"


async def test_reports_of_somebody_elses_runs_change_nothing(bridge: Bridge) -> None:
    team = bridge.own
    with team.start("victim"):
        await asyncio.to_thread(team.wait_for_nodes, 1)
        run = await asyncio.to_thread(team.run, "slow", "4")
        await asyncio.to_thread(team.wait, run, "running")
        forged = {"logId": run << 16 | 1 << 8, "handleCode": 200, "handleMsg": "forged"}
        answer = await bridge.post("callback", [forged], token="another")
        # A failure would have honest clients send it again for ever.
        assert answer["code"] == 200
        assert "another executor" in answer["msg"]
        await asyncio.to_thread(
            wait_until, lambda: bridge.audited("foreign_run"), what="foreign_run in the audit"
        )
        unknown = [{"logId": number, "handleCode": 200} for number in (0, -1, 1, 1 << 52, 1 << 62)]
        assert (await bridge.post("callback", unknown))["code"] == 200
        ended = await asyncio.to_thread(team.wait, run)
        assert (ended["state"], ended["result"]) == ("succeeded", None)


async def test_very_many_registrations_are_bounded(bridge: Bridge) -> None:
    began = time.monotonic()
    codes: list[int] = []
    count = often(2_000, by_night=10_000)
    ports = iter(range(20_000, 20_000 + count))
    headers = {"XXL-JOB-ACCESS-TOKEN": "another"}
    async with ClientSession(timeout=ClientTimeout(total=None), headers=headers) as session:

        async def asked(body: object) -> dict[str, Any]:
            url = f"{bridge.admin.url}/api/registry"
            while True:
                try:
                    async with session.post(url, json=body) as response:
                        answer: dict[str, Any] = await response.json()
                        return answer
                except ClientError:
                    await asyncio.sleep(0.5)  # the database was busy: it is to be sent again

        async def register() -> None:
            for port in ports:
                body = registration("other-app", f"http://127.0.0.1:{port}")
                answer = await asked(body)
                codes.append(answer["code"])
                if answer["code"] == 500:
                    assert f"has {MAX_REGISTERED} addresses already" in answer["msg"]

        await asyncio.gather(*(register() for _ in range(50)))
    taken, refused = codes.count(200), codes.count(500)
    assert taken + refused == count
    assert refused
    # As many again may come when those before have not registered for a while: on a slow machine.
    seconds = time.monotonic() - began
    assert MAX_REGISTERED <= taken <= MAX_REGISTERED * (1 + int(seconds * 1000 // REGISTRATION_MS))
    assert 1 <= len(bridge.audited("too_many_addresses")) <= 1 + int(seconds // AGAIN_SECONDS)
    # Others are served meanwhile: nobody listens at the thousand addresses.
    assert (await bridge.post("registry", registration()))["code"] == 200
    api = bridge.cluster.api()
    await asyncio.to_thread(api.delete, f"/executors/{bridge.other.executor_id}")


async def test_redirects_are_not_followed_and_names_are_checked_as_they_resolve(
    bridge: Bridge,
) -> None:
    """By a redirect, or a name, an executor might have us call what it may not register."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        raise web.HTTPTemporaryRedirect(f"http://127.0.0.1:{port}/secret")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    addresses = [f"http://127.0.0.1:{port}", "http://169.254.169.254.nip.invalid:80"]
    try:
        team = await asyncio.to_thread(
            make_team,
            bridge.cluster,
            OWN_C,
            bridge.own.directory / "redirect",
            app="redirecting",
            addresses=addresses,
        )
        errors = lambda: [  # noqa: E731
            each["last_error"] for each in team.executor()["xxl_job"]["known_addresses"]
        ]
        await asyncio.to_thread(
            wait_until, lambda: all(errors()), timeout_seconds=25, what="errors of both"
        )
        assert "/beat" in asked
        assert "/secret" not in asked
        assert any("HTTP status 307" in each for each in errors())
        assert team.executor()["live_nodes"] == 0
    finally:
        await runner.cleanup()


async def test_a_log_of_a_gigabyte_is_read_as_far_as_its_bound(bridge: Bridge) -> None:
    sent = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        if request.path != "/log":
            return web.json_response({"code": 200})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"code":200,"content":{"fromLineNum":1,"logContent":"')
        for _ in range(1024):
            await response.write(b"x" * MIB)
            sent += MIB
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        team = await asyncio.to_thread(
            make_team,
            bridge.cluster,
            OWN_C,
            bridge.own.directory / "gigabyte",
            app="gigabyte",
            addresses=[f"http://127.0.0.1:{port}"],
        )
        await asyncio.to_thread(team.wait_for_nodes, 1)
        run = await asyncio.to_thread(team.run, "anything")
        await asyncio.to_thread(team.wait, run, "running")
        await asyncio.sleep(5)
        assert 0 < sent < 200 * MIB
        lines = await asyncio.to_thread(team.log, run)
        assert lines
        assert all(len(line) < 20_000 for line in lines)
        assert bridge.cluster.api().get("/executors")  # and others are served
    finally:
        await runner.cleanup()
