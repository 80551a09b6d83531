"""Redirects that never leave this server."""

from __future__ import annotations

import re

# One slash and then neither slash nor backslash: browsers read "//host" and "/\host" as a host. Of
# control characters they drop some before they look, so none may occur.
_LOCAL_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*", re.ASCII)


def safe_next(value: str | None, *, default: str = "/") -> str:
    """`value` when it is a path on this server, else `default`. For `next=` after login."""
    if value and len(value) <= 2_000 and _LOCAL_PATH.fullmatch(value):
        return value
    return default
