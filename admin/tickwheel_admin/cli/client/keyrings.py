"""Tokens in the keyring of the system, where the package `keyring` is installed."""

from __future__ import annotations

import importlib
from typing import Any

from tickwheel_admin.cli.client.errors import UsageFailure

_SERVICE = "tickwheel"
INSTALL = "pip install keyring"


def has_keyring() -> bool:
    """Whether there is a keyring that keeps what it is given."""
    try:
        backend = _package().get_keyring()
    except UsageFailure:
        return False
    except Exception:  # noqa: BLE001 - backends raise what they like: none can be used then
        return False
    return bool(backend.priority >= 1)


def read_token(profile: str) -> str:
    """The token of a profile; UsageFailure when it cannot be had."""
    package = _package()
    try:
        token = package.get_password(_SERVICE, profile)
    except Exception as error:  # noqa: BLE001 - as above
        raise UsageFailure(f"the keyring does not give the token of {profile}: {error}") from None
    if not token:
        raise UsageFailure(
            f"the keyring has no token of the profile {profile}: log in again with"
            f" `tickwheel login --profile {profile}`"
        )
    return str(token)


def keep_token(profile: str, token: str) -> None:
    """Put it there; UsageFailure when it is not kept."""
    package = _package()
    try:
        package.set_password(_SERVICE, profile, token)
    except Exception as error:  # noqa: BLE001 - as above
        raise UsageFailure(f"the keyring does not keep the token: {error}") from None


def forget_token(profile: str) -> None:
    """Delete it, if it is there; UsageFailure when it stays."""
    package = _package()
    try:
        if package.get_password(_SERVICE, profile) is None:
            return  # backends refuse to delete what they do not have
        package.delete_password(_SERVICE, profile)
    except Exception as error:  # noqa: BLE001 - as above
        raise UsageFailure(f"the keyring does not delete the token: {error}") from None


def _package() -> Any:
    """Imported when it is needed: it takes time, and is an extra."""
    try:
        return importlib.import_module("keyring")
    except ImportError:
        raise UsageFailure(f"no keyring can be used without its package: {INSTALL}") from None
