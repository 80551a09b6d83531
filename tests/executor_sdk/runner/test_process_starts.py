"""Processes of handlers that take long to start, or cannot: whoever waits for them is told."""

from __future__ import annotations

import logging
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.executor_sdk.runner import process_handlers as work
from tests.executor_sdk.scripted_admin import value
from tests.support.polling import wait_until_async
from tickwheel_executor.runner import pool_process
from tickwheel_shared.protocol import Accepted, Cancel, CancelReason, Outcome, Result

from .test_process_handlers import a_node, asked, is_alive, run_once


def loading(directory: Path) -> list[int]:
    """The processes that have begun to load the handler."""
    return [int(path.name.partition("-")[2]) for path in directory.glob("loading-*")]


async def test_a_cancel_does_not_wait_for_a_process_that_starts(tmp_path: Path) -> None:
    async with a_node(work.SlowToLoad(tmp_path), slots=1) as (node, _, session):
        for run in (1, 2):
            session.send(asked(run))
            token = (await session.expect(Accepted)).token
            session.send(Cancel(run=run, attempt=1, token=token, reason=CancelReason.OPERATOR))
            result = await session.expect(Result)
            assert (result.run, result.outcome) == (run, Outcome.CANCELLED)
        (tmp_path / "go").touch()
        session.send(asked(3))
        assert value(await session.expect(Result)) == "loaded"
        assert len(loading(tmp_path)) == 1  # the one process served them all
        assert node.in_use == 0


async def test_a_node_that_stops_does_not_wait_for_a_process_that_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_node(work.SlowToLoad(tmp_path)) as (node, _, session):
        session.send(asked(1))
        await wait_until_async(lambda: loading(tmp_path))
        assert await node.drain(0)
    assert not any(is_alive(pid) for pid in loading(tmp_path))
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_a_process_that_does_not_get_ready_fails_the_run_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_process, "START_SECONDS", 0.5)
    result, _ = await run_once(work.SlowToLoad(tmp_path))
    assert result.outcome is Outcome.FAILED
    assert result.message == (
        "the handler's process could not be started: it was not ready within 0.5 s and was killed"
    )


async def test_a_service_may_have_many_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2048), hard), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        result, _ = await run_once(work.pid)
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert result.outcome is Outcome.SUCCEEDED


async def test_what_is_no_text_in_the_path_and_the_arguments_keeps_no_process_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: list[Any] = [*sys.path, tmp_path]
    monkeypatch.setattr(sys, "path", path)
    monkeypatch.setattr(sys, "argv", ["service.py", "caf\udce9"])  # as it comes in Latin-1
    result, _ = await run_once(work.arguments)
    assert value(result) == r"['caf\udce9']"
