"""Profiles: servers with their tokens, by name, in a file that only its owner can read."""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tickwheel_admin.cli.client.errors import UsageFailure

_NAME = re.compile(r"[A-Za-z0-9_-]{1,50}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProfile:
    """A server as `tickwheel login` noted it."""

    url: str  # several admins of one installation: commas between them
    token: str | None = None  # in the file
    token_in_keyring: bool = False  # in the keyring of the system instead
    token_file: str | None = None  # in a file of its own instead
    ca_file: str | None = None  # PEM; None: the certificates of the system
    insecure_http: bool = False  # the token may be sent without TLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """All profiles of a user."""

    default: str | None
    by_name: Mapping[str, ServerProfile]

    def with_one(self, name: str, profile: ServerProfile, *, as_default: bool) -> Profiles:
        """These and another one; the first one becomes the default in any case."""
        default = name if as_default or self.default is None else self.default
        return Profiles(default=default, by_name={**self.by_name, name: profile})

    def without(self, name: str) -> Profiles:
        """All but this one."""
        rest = {known: each for known, each in self.by_name.items() if known != name}
        return replace(self, default=None if self.default == name else self.default, by_name=rest)


def profiles_file(environment: Mapping[str, str]) -> Path:
    """Where they stand, by the rules of XDG."""
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "tickwheel" / "profiles.toml"


def check_name(name: str) -> str:
    """The name; UsageFailure when it cannot be one."""
    if not _NAME.fullmatch(name):
        raise UsageFailure(
            f"{name!r} is no name of a profile: use 1 to 50 letters, digits, - and _"
        )
    return name


def read_profiles(file: Path) -> Profiles:
    """The profiles in a file; none when there is no file.

    Raises:
        UsageFailure: others may read it, or it says what no profile has.
    """
    try:
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            raw = tomllib.load(opened)
    except FileNotFoundError:
        return Profiles(default=None, by_name={})
    except OSError as error:
        raise UsageFailure(f"{file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageFailure(f"{file} is not valid TOML: {error}") from None
    if mode & 0o077:
        raise UsageFailure(f"{file} has tokens and others may read it: run `chmod 600 {file}`")
    return _profiles_of(raw, file)


def write_profiles(file: Path, profiles: Profiles) -> None:
    """Replace the file at once, readable for its owner only."""
    lines = []
    if profiles.default is not None:
        lines.append(f"default = {json.dumps(profiles.default)}\n")
    for name, profile in profiles.by_name.items():
        lines.append(f"\n[profiles.{name}]\n")
        for field, value in asdict(profile).items():
            if value:  # what is at its default is left out
                lines.append(f"{field} = {json.dumps(value, ensure_ascii=False)}\n")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".profiles-")  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.writelines(lines)
        Path(temporary).replace(file)
    except OSError as error:
        raise UsageFailure(f"{file} cannot be written: {error.strerror}") from None


def _profiles_of(raw: Mapping[str, Any], file: Path) -> Profiles:
    unknown = sorted(set(raw) - {"default", "profiles"})
    if unknown:
        raise UsageFailure(f"{file}: {unknown[0]} is no setting of this file")
    tables, default = raw.get("profiles", {}), raw.get("default")
    if not isinstance(tables, dict) or not isinstance(default, str | None):
        raise UsageFailure(f"{file}: `default` is a name, and `profiles` a table")
    found = {check_name(name): _profile_of(table, name, file) for name, table in tables.items()}
    return Profiles(default=default, by_name=found)


def _profile_of(raw: object, name: str, file: Path) -> ServerProfile:
    place = f"{file}: profile {name}"
    if not isinstance(raw, dict) or not isinstance(raw.get("url"), str):
        raise UsageFailure(f"{place}: `url` is missing")
    for field, value in raw.items():
        if field not in ServerProfile.__slots__:
            raise UsageFailure(f"{place}: {field} is no setting of a profile")
        wanted = bool if field in ("token_in_keyring", "insecure_http") else str
        if not isinstance(value, wanted):
            raise UsageFailure(
                f"{place}: {field} must be {'true or false' if wanted is bool else 'a text'}"
            )
    return ServerProfile(**raw)
