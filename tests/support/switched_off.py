"""A pytest plugin that switches a mechanism off: `pytest -p tests.support.switched_off`.

For tests/simulation/test_switches.py, which shows that each test it names fails without its
mechanism. `SWITCH_OFF` names one of tests.simulation.mutations.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.mutations import MUTATIONS


def pytest_configure(config: pytest.Config) -> None:
    MUTATIONS[os.environ["SWITCH_OFF"]]()
