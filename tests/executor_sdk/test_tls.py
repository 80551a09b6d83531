"""Settings of TLS: from arguments and environment, and each mistake in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tickwheel_executor.errors import ConfigurationError
from tickwheel_executor.settings import check, check_client
from tickwheel_executor.tls import TlsSettings

TOKEN = "t" * 40


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    authority.issue("node")
    authority.issue("other")
    authority.issue("hidden", passphrase=b"secret")
    return authority.directory


def test_the_environment_names_the_files_that_are_not_given(files: Path) -> None:
    environ = {
        "TICKWHEEL_CA_FILE": str(files / "authority.pem"),
        "TICKWHEEL_CLIENT_CERT": str(files / "other.pem"),
        "TICKWHEEL_CLIENT_KEY": str(files / "node.key"),
        "TICKWHEEL_TOKEN": TOKEN,
        "TICKWHEEL_API_TOKEN": TOKEN,
    }
    found = check(
        executor="shop", admins=["https://a"], token=None, name=None, slots=1, labels={},
        client_cert=files / "node.pem", environ=environ,
    )  # fmt: skip
    expected = TlsSettings(
        ca_file=str(files / "authority.pem"),
        client_cert=str(files / "node.pem"),
        client_key=str(files / "node.key"),
    )
    assert found.tls == expected
    del environ["TICKWHEEL_CLIENT_CERT"], environ["TICKWHEEL_CLIENT_KEY"]
    _, _, tls = check_client(admins=["https://a"], token=None, environ=environ)
    assert tls == TlsSettings(ca_file=str(files / "authority.pem"))
    assert TlsSettings().context() is True, "what the system trusts"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ca_file": "none.pem"}, "none.pem: cannot be read: No such file"),
        ({"ca_file": "node.key"}, "node.key: holds no certificate in PEM"),
        ({"client_key": "node.key"}, "client_key is given, but no client_cert"),
        ({"client_cert": "node.pem"}, "holds no certificate and key that fit"),
        ({"client_cert": "node.pem", "client_key": "other.key"}, "key values mismatch"),
        ({"client_cert": "hidden.pem", "client_key": "hidden.key"}, "holds no certificate and key"),
    ],
)
def test_files_that_will_not_do_are_told(files: Path, given: dict[str, str], told: str) -> None:
    paths = {name: files / file for name, file in given.items()}
    with pytest.raises(ConfigurationError) as refused:
        check_client(admins=["https://a"], token=TOKEN, environ={}, **paths)
    [problem] = refused.value.problems
    assert told in problem


def test_an_address_without_encryption_is_told_when_files_are_given(files: Path) -> None:
    with pytest.raises(ConfigurationError, match="http://b:8500 is not encrypted"):
        check_client(
            admins=["https://a", "http://b:8500"],
            token=TOKEN,
            ca_file=files / "authority.pem",
            environ={},
        )
