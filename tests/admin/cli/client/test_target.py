"""Which server and token are meant; a token never goes where it does not belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.profiles import (
    Profiles,
    ServerProfile,
    read_profiles,
    write_profiles,
)
from tickwheel_admin.cli.client.target import Given, find_target

PROD = ServerProfile(url="https://prod.example", token="twa_prod", ca_file="/etc/ca.pem")
LAB = ServerProfile(url="http://lab.example:8500", token="twa_lab", insecure_http=True)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    profiles = Profiles(default="prod", by_name={"prod": PROD, "lab": LAB})
    write_profiles(tmp_path / "tickwheel/profiles.toml", profiles)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


ENVIRONMENT = {"TICKWHEEL_URL": "https://env.example", "TICKWHEEL_API_TOKEN": "twa_env"}


@pytest.mark.parametrize(
    ("given", "more", "url", "token", "ca_file"),
    [
        (Given(), {}, PROD.url, "twa_prod", "/etc/ca.pem"),
        (Given(), {"TICKWHEEL_PROFILE": "lab"}, LAB.url, "twa_lab", None),
        (Given(), ENVIRONMENT, "https://env.example", "twa_env", None),
        (Given(profile="lab"), ENVIRONMENT, LAB.url, "twa_lab", None),
        (Given(url="https://prod.example/"), {}, PROD.url, "twa_prod", "/etc/ca.pem"),
        (Given(url="https://b.example"), {}, "https://b.example", None, None),
        (Given(url="https://b.example", profile="prod"), {}, "https://b.example", None, None),
        (Given(url="http://127.0.0.1:8500"), ENVIRONMENT, "http://127.0.0.1:8500", "twa_env", None),
        (Given(url="http://[::1]:1", ca_file="x"), ENVIRONMENT, "http://[::1]:1", "twa_env", "x"),
        (Given(url="http://x", insecure_http=True), ENVIRONMENT, "http://x", "twa_env", None),
    ],
)  # fmt: skip
def test_the_nearest_word_counts(
    given: Given,
    more: dict[str, str],
    url: str,
    token: str | None,
    ca_file: str | None,
    environment: dict[str, str],
) -> None:
    target = find_target(given, environment | more)
    assert (target.urls, target.token, target.ca_file) == ((url,), token, ca_file)
    assert "twa_" not in repr(target)


def test_a_token_file_comes_before_all_other_tokens(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    file = tmp_path / "token"
    file.write_text("twa_file\n")
    file.chmod(0o600)
    given = Given(profile="prod", token_file=str(file))
    assert find_target(given, environment | ENVIRONMENT).token == "twa_file"
    file.chmod(0o644)
    with pytest.raises(UsageFailure, match="chmod 600"):
        find_target(given, environment)


@pytest.mark.parametrize(
    ("given", "more", "told"),
    [
        (Given(url="http://10.0.0.5:8500"), ENVIRONMENT, "without encryption"),
        (Given(url="http://127.0.0.1.evil.example"), ENVIRONMENT, "without encryption"),
        (Given(url="ftp://x"), ENVIRONMENT, "no address of an admin"),
        (Given(url="https://u:p@x"), ENVIRONMENT, "no address of an admin"),
        (Given(url="https://x:99999"), ENVIRONMENT, "no address of an admin"),
        (Given(url="https://x y"), ENVIRONMENT, "no address of an admin"),
        (Given(url=f"https://{'x' * 70}"), ENVIRONMENT, "no address of an admin"),
        (Given(profile="prot"), {}, "there is no profile prot .*there: lab, prod"),
        (Given(url="https://x"), {"TICKWHEEL_API_TOKEN": "a\nb"}, "one line"),
        (Given(), {"XDG_CONFIG_HOME": "/nowhere"}, "no server is known"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    given: Given, more: dict[str, str], told: str, environment: dict[str, str]
) -> None:
    with pytest.raises(UsageFailure, match=told) as failure:
        find_target(given, environment | more)
    assert failure.value.exit_code == 2


def test_profiles_are_kept_for_their_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "tickwheel/profiles.toml"
    odd = ServerProfile(url='https://x/"\\', token="twa_ü")
    profiles = Profiles(default=None, by_name={}).with_one("odd", odd, as_default=False)
    write_profiles(file, profiles)
    assert read_profiles(file) == profiles
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["profiles.toml"]
    file.chmod(0o640)
    with pytest.raises(UsageFailure, match="chmod 600"):
        read_profiles(file)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "x is no setting"),
        ("default = 1", "`default` is a name"),
        ("[profiles.a]\ntoken = 'x'", "`url` is missing"),
        ("[profiles.a]\nurl = 'x'\ntokn = 'x'", "tokn is no setting"),
        ("[profiles.a]\nurl = 'x'\ninsecure_http = 'yes'", "must be true or false"),
        ("[profiles", "not valid TOML"),
    ],
)
def test_a_broken_file_says_where(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(UsageFailure, match=told):
        read_profiles(file)
