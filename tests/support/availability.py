"""When the machine lacks a server or a browser, a visitor's test is skipped and CI fails."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")


def unavailable(reason: str) -> NoReturn:
    if IN_CI:
        pytest.fail(f"{reason} (a skip is a failure in CI)", pytrace=False)
    pytest.skip(reason)
