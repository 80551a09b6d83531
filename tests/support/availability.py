"""When the machine lacks a server or a browser, a visitor's test is skipped and CI fails.

What cannot be installed, such as a right or a part of the kernel, is skipped in CI, too.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")
NOT_HERE = "not possible here: "


def impossible(reason: str) -> NoReturn:
    """Skip a test that nothing to install would make possible on this machine."""
    pytest.skip(f"{NOT_HERE}{reason}")


def unavailable(reason: str) -> NoReturn:
    if IN_CI:
        pytest.fail(f"{reason} (a skip is a failure in CI)", pytrace=False)
    pytest.skip(reason)
