"""A bank on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .bank import Bank


@pytest.fixture
def bank(database_url: str) -> Iterator[Bank]:
    bank = Bank(database_url)
    bank.open()
    yield bank
    bank.engine.dispose()
