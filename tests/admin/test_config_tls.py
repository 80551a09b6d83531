"""TLS in the configuration: each mistake in the files is told at the start, with its setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tickwheel_admin.config import ConfigError, load_config


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    authority.issue("admin")
    authority.issue("other")
    authority.issue("hidden", passphrase=b"secret")
    (authority.directory / "junk.pem").write_text("nothing")
    return authority


def test_with_a_certificate_nodes_are_told_to_come_by_tls(authority: Authority) -> None:
    environment = settings(authority, "admin.pem", "admin.key", "authority.pem")
    config = load_config({"host": "127.0.0.1", "port": "8443"}, environment=environment)

    assert config.public_url == config.console_url == "https://127.0.0.1:8443"
    assert config.is_public_over_tls
    assert config.tls is not None
    assert config.tls.client_ca == authority.file
    assert load_config(environment={}).tls is None


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (("admin.pem", None, None), "tls_cert: needs tls_key as well"),
        ((None, "admin.key", None), "tls_key: needs tls_cert as well"),
        ((None, None, "authority.pem"), "tls_client_ca: needs tls_cert and tls_key as well"),
        (("none.pem", "admin.key", None), "none.pem cannot be read: No such file or directory"),
        (("junk.pem", "admin.key", None), "junk.pem holds no certificate in PEM"),
        (("admin.pem", "admin.pem", None), "tls_key: "),
        (("admin.pem", "other.key", None), "other.key is not the key of the first certificate"),
        (("admin.pem", "hidden.key", None), "hidden.key has a passphrase; store it without one"),
        (("admin.pem", "admin.key", "other.pem"), "holds CN=other, which is no authority"),
        (("admin.pem", "admin.key", "none.pem"), "tls_client_ca: "),
    ],
)
def test_files_that_will_not_do_are_told(
    authority: Authority, files: tuple[str | None, str | None, str | None], told: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_config(environment=settings(authority, *files))
    [problem] = refusal.value.problems
    assert told in problem


def test_all_mistakes_are_told_at_once(authority: Authority) -> None:
    environment = settings(authority, "junk.pem", "hidden.key", "none.pem")
    environment["TICKWHEEL_PUBLIC_URL"] = "http://jobs.example"
    with pytest.raises(ConfigError) as refusal:
        load_config(environment=environment)
    assert [problem.partition(":")[0] for problem in refusal.value.problems] == [
        "public_url",
        "tls_cert",
        "tls_key",
        "tls_client_ca",
    ]


def settings(
    authority: Authority, cert: str | None, key: str | None, client_ca: str | None
) -> dict[str, str]:
    given: dict[str, str | None] = {"CERT": cert, "KEY": key, "CLIENT_CA": client_ca}
    return {
        f"TICKWHEEL_TLS_{name}": str(Path(authority.directory, file))
        for name, file in given.items()
        if file is not None
    }
