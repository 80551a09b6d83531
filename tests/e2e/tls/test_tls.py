"""TLS at the admin itself: a real admin, node and client, and certificates that are renewed."""

from __future__ import annotations

import json
import logging
import os
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import Authority
from tests.support.forks import ForkedCommand, run_command
from tests.support.polling import wait_until
from tests.support.processes import free_port
from tickwheel_executor import Client, Executor


def test_nodes_and_programs_come_by_tls_and_stay_while_certificates_are_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="tickwheel")
    authority = Authority(tmp_path / "tls")
    cert, key = authority.issue("admin", days=10)
    node_cert, node_key = authority.issue("node-1", days=10)
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    environment = os.environ | {
        "TICKWHEEL_DATA_DIR": str(tmp_path / "data"),
        "TICKWHEEL_TLS_CERT": str(cert),
        "TICKWHEEL_TLS_KEY": str(key),
        "TICKWHEEL_TLS_CLIENT_CA": str(authority.file),
    }
    arguments = ["serve", "--port", str(port), "--log-format", "json"]
    with ForkedCommand(arguments, tmp_path / "admin.log", environment=environment) as admin:
        admin.wait_for_line("admin.started", timeout_seconds=30)
        made = run_command(["token", "create", "admin", "tests"], environment)
        token = made.stdout.strip()
        trusted = ssl.create_default_context(cafile=str(authority.file))

        def post(path: str, body: object) -> Any:
            request = urllib.request.Request(
                f"{url}/api/v1{path}",
                data=json.dumps(body).encode(),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=30, context=trusted) as answer:
                assert "Strict-Transport-Security" in answer.headers
                return json.load(answer)

        shop = post("/executors", {"name": "shop"})
        common: dict[str, Any] = {"admins": [url], "token": shop["token"]}
        executor = Executor(
            "shop", **common, spool_dir=tmp_path / "spool", name="node-1",
            ca_file=authority.file, client_cert=node_cert, client_key=node_key,
        )  # fmt: skip
        stranger = Executor(
            "shop", **common, spool_dir=tmp_path / "spool-2", ca_file=authority.file
        )
        doubter = Executor(
            "shop", **common, spool_dir=tmp_path / "spool-3", ca_file=node_cert,
            client_cert=node_cert, client_key=node_key,
        )  # fmt: skip

        @executor.handler("count")
        def count(number: int) -> int:
            return number + 1

        with_all = [executor, stranger, doubter]
        for each in with_all:
            each.start()
        try:
            post("/jobs", {"executor_id": shop["id"], "name": "count", "handler": "count"})
            client = Client([url], token, ca_file=authority.file)
            run = client.run_job("shop/count", {"number": 1}).result()
            assert client.wait(run, timeout=30).result().result == 2
            wait_until(lambda: "only with a client certificate" in caplog.text, what="the stranger")
            wait_until(lambda: "its certificate is not trusted" in caplog.text, what="the doubter")

            before = ssl.get_server_certificate(("127.0.0.1", port))
            authority.issue("admin", days=90)
            wait_until(
                lambda: ssl.get_server_certificate(("127.0.0.1", port)) != before,
                what="the new certificate",
                timeout_seconds=30,
            )
            run = client.run_job("shop/count", {"number": 2}).result()
            assert client.wait(run, timeout=30).result().result == 3
            assert caplog.text.count("connected to admin") == 1, "nobody was cut off"
        finally:
            for each in with_all:
                each.stop()
        assert admin.stop() == 0
    assert "tls.files_taken" in admin.output()
    assert "node.certificate_missing" in admin.output()
    assert '"subject":"commonName=node-1"' in admin.output().replace('": "', '":"')
