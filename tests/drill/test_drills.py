"""The short drill: an admin is killed with a claim in its hands."""

from __future__ import annotations

import os

import pytest

from tests.drill.__main__ import main
from tests.drill.bed import SERVERS
from tests.support.availability import unavailable
from tests.support.databases import chosen_kinds

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drill takes a developer's settings out of the environment; they come back."""
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        monkeypatch.delenv(name)


@pytest.mark.slow
def test_the_short_drill_loses_doubles_and_strands_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    kinds = [kind for kind in SERVERS if kind in chosen_kinds() and SERVERS[kind].is_installed()]
    if not kinds:
        unavailable("no database server is installed that two admins can share")
    code = main(["--quick", "--database", kinds[0]])
    printed = capfd.readouterr().out
    print(printed)
    assert code == 0, printed
    assert "claimed × kill9 " in printed
