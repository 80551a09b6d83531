"""The handler in docs/tracing.md is what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tickwheel_executor.testing import run_handler

DOCUMENT = Path(__file__).parents[3] / "docs" / "tracing.md"


async def test_the_handler_of_the_document_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWHEEL_ADMINS", "http://localhost:8500")
    monkeypatch.setenv("TICKWHEEL_TOKEN", "t" * 40)
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    namespace = {"__name__": "service"}
    exec(code, namespace)
    end = await run_handler(
        namespace["executor"],
        "send-invoices",
        parameters={"month": "2026-03"},  # type: ignore[arg-type]
    )
    assert (end.outcome, end.result) == ("succeeded", 7)
