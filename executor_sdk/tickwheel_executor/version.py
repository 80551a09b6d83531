"""The version of this package, which hello sends to admins."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("tickwheel-executor")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "0"

SDK = f"python/{VERSION}"
