"""Which server a command speaks to and with which token: flags, environment, profile."""

from __future__ import annotations

import ipaddress
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tickwheel_admin.cli.client import keyrings
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.profiles import (
    Profiles,
    ServerProfile,
    profiles_file,
    read_profiles,
)

URL_VARIABLE = "TICKWHEEL_URL"
# As for the client of the SDK: TICKWHEEL_TOKEN is the token of a node.
TOKEN_VARIABLE = "TICKWHEEL_API_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE_VARIABLE = "TICKWHEEL_API_TOKEN_FILE"  # noqa: S105 - likewise
CA_FILE_VARIABLE = "TICKWHEEL_CA_FILE"
PROFILE_VARIABLE = "TICKWHEEL_PROFILE"

_NO_SERVER = (
    f"no server is known: run `tickwheel login`, set {URL_VARIABLE} and {TOKEN_VARIABLE}, or give"
    " --url and --token-file"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the flags say; None: nothing."""

    url: str | None = None
    profile: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    insecure_http: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The admins of one installation; any of them answers."""

    urls: tuple[str, ...]  # without a slash at the end
    token: str | None = field(repr=False)
    ca_file: str | None


def find_target(given: Given, environment: Mapping[str, str]) -> Target:
    """The server and the token that flags, environment and profiles make together.

    A profile's token goes to the profile's own server only, whatever else names another one.

    Raises:
        UsageFailure: no server is known, or the token would be sent in the clear.
    """
    profile_name, profile = _profile(given, environment)
    url = given.url or (None if given.profile else environment.get(URL_VARIABLE))
    if url is None and profile is None:
        raise UsageFailure(_NO_SERVER)
    if profile is not None and (url is None or _urls(url) == _urls(profile.url)):
        urls, of_it = _urls(profile.url), profile
    else:
        urls, of_it = _urls(url or ""), ServerProfile(url="")
    target = Target(
        urls=urls,
        token=_token(given, environment, of_it, profile_name),
        ca_file=given.ca_file or of_it.ca_file or environment.get(CA_FILE_VARIABLE),
    )
    if target.token is not None and not (given.insecure_http or of_it.insecure_http):
        _refuse_clear_text(target.urls)
    return target


def read_token_file(file: str) -> str:
    """The token in a file of its own; `-` for the standard input is not read here.

    Raises:
        UsageFailure: it cannot be read, is empty, or others may read it.
    """
    path = Path(file)
    try:
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o007:
            raise UsageFailure(f"{file} has a token and everybody may read it: `chmod 600 {file}`")
        return check_token(path.read_text(encoding="utf-8").strip(), file)
    except UnicodeDecodeError:
        raise UsageFailure(f"{file} is not text") from None
    except OSError as error:
        raise UsageFailure(f"the token file {file} cannot be read: {error.strerror}") from None


def check_token(token: str, place: str) -> str:
    """The token; UsageFailure when it cannot be one."""
    if not token:
        raise UsageFailure(f"{place}: there is no token")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageFailure(f"{place}: a token is one line of visible ASCII characters")
    return token


def check_url(url: str) -> str:
    """The URL without its last slash; UsageFailure when it names no server."""
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").encode("idna")
        usable = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
        usable = usable and parts.path.isascii() and not any(each.isspace() for each in url.strip())
    except ValueError:  # UnicodeError, too
        usable = False
    if not usable or parts.username is not None or parts.query or parts.fragment:
        raise UsageFailure(
            f"{url!r} is no address of an admin; it looks like https://tickwheel.example.com:8500"
        )
    return url.strip().rstrip("/")


def _urls(text: str) -> tuple[str, ...]:
    return tuple(check_url(each) for each in text.split(",") if each.strip()) or (check_url(text),)


def _profile(given: Given, environment: Mapping[str, str]) -> tuple[str, ServerProfile | None]:
    file = profiles_file(environment)
    asked = given.profile or environment.get(PROFILE_VARIABLE)
    if (
        asked is None
        and (given.url or environment.get(URL_VARIABLE))
        and _has_token(given, environment)
    ):
        return "", None  # nothing is missing: the file is not even read
    profiles: Profiles = read_profiles(file)
    name = asked or profiles.default
    if name is None:
        return "", None
    if name not in profiles.by_name:
        known = ", ".join(sorted(profiles.by_name)) or "none"
        raise UsageFailure(f"there is no profile {name} in {file} (there: {known})")
    return name, profiles.by_name[name]


def _has_token(given: Given, environment: Mapping[str, str]) -> bool:
    return bool(
        given.token_file or environment.get(TOKEN_VARIABLE) or environment.get(TOKEN_FILE_VARIABLE)
    )


def _token(
    given: Given, environment: Mapping[str, str], profile: ServerProfile, name: str
) -> str | None:
    if given.token_file:
        return read_token_file(given.token_file)
    # A profile that the flag names is meant, whatever the environment is set up for.
    if not (given.profile and profile.url):
        if environment.get(TOKEN_VARIABLE):
            return check_token(environment[TOKEN_VARIABLE].strip(), TOKEN_VARIABLE)
        if environment.get(TOKEN_FILE_VARIABLE):
            return read_token_file(environment[TOKEN_FILE_VARIABLE])
    if profile.token_in_keyring:
        return keyrings.read_token(name)
    if profile.token_file:
        return read_token_file(profile.token_file)
    return profile.token


def _refuse_clear_text(urls: tuple[str, ...]) -> None:
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
            raise UsageFailure(
                f"the token would be sent to {url} without encryption: use https, or give"
                " --insecure-http if the network between is trusted"
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
