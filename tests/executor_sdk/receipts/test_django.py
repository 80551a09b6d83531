"""Receipts on connections of Django, whose settings need a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .bank import Bank


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_in_a_block_of_django(kind: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(f"{kind}_url")
    done = subprocess.run(
        [sys.executable, "-m", "tests.executor_sdk.receipts.django_service", url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, again, late, outside, alone = json.loads(done.stdout)
    assert first == ["succeeded", {"moved": 10}, ""]
    for outcome, result, message in (again, late, alone):
        assert (outcome, result) == ("succeeded", {"moved": 10})
        assert message.startswith("settled by its receipt: attempt 1 has done the work at ")
    assert outside[0] == "failed"
    assert "no transaction was begun on this connection" in outside[2]
    assert Bank(url).moves() == (1, 1)
