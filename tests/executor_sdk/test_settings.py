"""What a user may write wrong is said at once, all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tickwheel_executor
from tickwheel_executor import (
    ConfigurationError,
    Executor,
    HandlerError,
    OutsideRunError,
    Run,
    TickwheelExecutorError,
    current_run,
)
from tickwheel_executor.attempts.recent_claims import RecentClaims
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.node.lifecycle import _default_spool_dir
from tickwheel_executor.settings import check
from tickwheel_executor.text import clean, cut
from tickwheel_shared.protocol import Outcome, Refusal

from .scripted_admin import TOKEN


def test_the_public_names() -> None:
    assert tickwheel_executor.__all__ == [
        "AlreadyDone",
        "AsyncReceipt",
        "Call",
        "CheckpointError",
        "Client",
        "ClientError",
        "ConfigurationError",
        "Ending",
        "Executor",
        "Fail",
        "HandlerError",
        "LogLine",
        "NoAdminError",
        "NodeMetrics",
        "NotFoundError",
        "OutsideRunError",
        "Receipt",
        "ReceiptError",
        "Reference",
        "Retry",
        "Run",
        "RunCancelledError",
        "RunLog",
        "RunNotSucceededError",
        "RunStatus",
        "Skip",
        "SpawnError",
        "SpoolError",
        "StaleAttemptError",
        "StateUnavailableError",
        "Step",
        "TickwheelExecutorError",
        "TokenRefusedError",
        "WaitTimeoutError",
        "Workflow",
        "current_run",
        "structlog_lines",
    ]
    for name in tickwheel_executor.__all__:
        value = getattr(tickwheel_executor, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, TickwheelExecutorError)


def settings(environ: dict[str, str] | None = None, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "executor": "billing",
        "admins": ["http://localhost:8500"],
        "token": TOKEN,
        "name": None,
        "slots": 16,
        "labels": {},
    }
    return check(**{**given, **changes}, environ=environ or {})


def problems(**changes: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        settings(**changes)
    return caught.value.problems


def test_every_problem_is_listed_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings(executor="", admins=[], token="", slots=0, shutdown_grace_seconds=-1)
    assert len(caught.value.problems) == 5
    assert str(caught.value).count("\n- ") == 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"token": "t" * 31}, "31 characters"),
        ({"token": "t" * 31 + "\n"}, "white space"),
        ({"token": "é" * 40}, "no token has"),
        ({"admins": ["localhost:8500"]}, "'localhost:8500': it must start with http"),
        ({"admins": ["http://me:secret@host"]}, "must not contain a user"),
        ({"slots": 10_001}, "from 1 to 10,000"),
        ({"slots": True}, "from 1 to 10,000"),
        ({"max_log_mb": 0}, "max_log_mb is 0; it must be a whole number from 1 to 100,000"),
        ({"slots": 2.5}, "from 1 to 10,000"),
        ({"weight": 0}, "weight is 0; it must be a whole number from 1 to 1,000"),
        ({"weight": 1_001}, "from 1 to 1,000"),
        ({"executor": " billing"}, "executor name"),
        ({"name": "a\nb"}, "node name"),
        ({"labels": {"": "x"}}, "label"),
        ({"labels": {"zone": 1}}, "label"),
        ({"labels": {"gpu": ""}}, "label"),  # an admin would turn the node away again and again
        ({"shutdown_grace_seconds": float("nan")}, "shutdown_grace_seconds"),
    ],
)
def test_each_problem_is_a_sentence(changes: dict[str, Any], words: str) -> None:
    (problem,) = problems(**changes)
    assert words in problem
    assert "secret" not in problem
    assert "ttt" not in problem


def test_the_environment_fills_in_what_is_not_given() -> None:
    environ = {
        "TICKWHEEL_EXECUTOR": "billing",
        "TICKWHEEL_ADMINS": "http://a:8500/, http://b:8500,http://a:8500",
        "TICKWHEEL_TOKEN": TOKEN,
    }
    made = settings(environ, executor=None, admins=None, token=None)
    assert made.executor == "billing"
    assert made.admins == ("http://a:8500", "http://b:8500")
    assert made.name.rpartition("-")[2].isdigit()
    assert settings(environ, executor="other").executor == "other"
    assert settings(admins="http://one").admins == ("http://one",)


def test_an_empty_token_given_is_not_replaced_by_the_environment() -> None:
    with pytest.raises(ConfigurationError, match="no token"):
        settings({"TICKWHEEL_TOKEN": TOKEN}, token="")


def test_the_token_is_not_shown() -> None:
    assert TOKEN not in repr(settings())


@pytest.mark.parametrize(
    ("name", "directory"),
    [("billing", "billing"), ("..", "%2E%2E"), ("a/b", "a%2Fb"), ("账单", "%E8%B4%A6%E5%8D%95")],
)
def test_the_default_spool_is_one_directory_of_the_user(
    name: str, directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert _default_spool_dir(name) == tmp_path / "tickwheel" / directory
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert _default_spool_dir("b") == Path("/home/somebody/.local/state/tickwheel/b")


# --- handlers -------------------------------------------------------------------------------------


def plain(run: Run) -> None: ...


def generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "words"), [(generator, "generator"), ("no function", "not a function")]
)
def test_what_may_not_be_a_handler(function: Any, words: str) -> None:
    with pytest.raises(HandlerError, match=words):
        Handlers().add("h", function)


@pytest.mark.parametrize("name", ["", " a", "a\n", "x" * 129])
def test_handler_names(name: str) -> None:
    with pytest.raises(HandlerError, match="handler name"):
        Handlers().add(name, plain)


def test_a_name_is_taken_once_and_before_the_start() -> None:
    executor = Executor("billing", admins=["http://x"], token=TOKEN)

    @executor.handler("a")
    def first() -> None: ...

    assert callable(first)  # the decorator gives the function back
    with pytest.raises(HandlerError, match="already"):
        executor.handler("a")(plain)
    handlers = Handlers()
    handlers.close()
    with pytest.raises(HandlerError, match="too late"):
        handlers.add("late", plain)


def test_current_run_outside_of_a_run() -> None:
    with pytest.raises(OutsideRunError):
        current_run()


# --- memory and text ------------------------------------------------------------------------------


def test_ended_attempts_are_found_and_forgotten_after_a_quarter_of_an_hour() -> None:
    ended = RecentClaims()
    ended.add((64, 1, "a"), Outcome.FAILED, 10_000.0)
    ended.add((65, 1, "b"), Refusal.FULL, 10_000.0)
    ended.add((64, 2, "c"), Outcome.SUCCEEDED, 10_000.0)
    ended.add((10**15, 1, "d"), Refusal.NEVER_SEEN, 10_000.0)
    for now in (10_000.0, 10_000.0 + 15 * 60):
        assert ended.find((64, 1, "a"), now) is Outcome.FAILED
        assert ended.find((65, 1, "b"), now) is Refusal.FULL
        assert ended.find((64, 2, "c"), now) is Outcome.SUCCEEDED
        assert ended.find((10**15, 1, "d"), now) is Refusal.NEVER_SEEN
        assert ended.find((66, 1, "a"), now) is None
    ended.add((65, 1, "b"), Outcome.CANCELLED, 10_900.0)
    assert ended.find((65, 1, "b"), 10_900.0) is Outcome.CANCELLED  # the newest word counts
    assert ended.find((64, 1, "a"), 10_000.0 + 20 * 60) is None
    assert not ended.renew((64, 1), 10_000.0 + 20 * 60)


def test_another_claim_of_an_ended_attempt_is_not_that_attempt() -> None:
    ended = RecentClaims()
    ended.add((64, 1, "of the old timeline"), Outcome.SUCCEEDED, 0.0)
    assert ended.find((64, 1, "of the new one"), 0.0) is None
    assert not ended.renew((65, 1), 0.0)
    assert ended.renew((64, 1), 14 * 60.0)  # but known it is, and for as long again
    assert ended.renew((64, 1), 28 * 60.0)
    assert ended.find((64, 1, "of the old timeline"), 28 * 60.0) is Outcome.SUCCEEDED
    tokens = [f"token {number}" for number in range(20_000)]
    mistaken = sum(ended.find((64, 1, token), 28 * 60.0) is not None for token in tokens)
    assert 0 < mistaken < 20  # 1 in 4,096


def test_ended_neighbours_share_a_page() -> None:
    ended = RecentClaims()
    for run in range(200_000):
        ended.add((run, 1, f"t{run}"), Outcome.SUCCEEDED, 1.0)
    pages = ended._generations[-1]
    assert len(pages) == 200_000 // 64
    assert all(
        ended.find((run, 1, f"t{run}"), 1.0) is Outcome.SUCCEEDED for run in range(0, 200_000, 997)
    )


def test_text_is_made_fit_to_store() -> None:
    assert clean("a\x00b\udfffc 中文") == "a\ufffdb?c 中文"
    assert cut("short", 10) == "short"
    assert len(cut("x" * 1000, 100)) == 100
