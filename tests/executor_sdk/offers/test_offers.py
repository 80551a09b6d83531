"""What every offer builds on: registration, and reading a section of a configuration file."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tickwheel_executor import Executor, Run
from tickwheel_executor.errors import Failed
from tickwheel_executor.offers import HandlerRegistry
from tickwheel_executor.offers.config import ConfigTable
from tickwheel_executor.testing import run_handler
from tickwheel_shared.protocol import RunScript


class Echo:
    """An offer."""

    def register(self, executor: HandlerRegistry) -> None:
        @executor.handler("echo")
        async def echo(run: Run, *, text: str = "hello") -> str:
            """Return the text, and the script's language."""
            return f"{text} {run.script.language if run.script is not None else '-'}"


async def test_an_executor_has_the_handlers_of_its_offers(tmp_path: Path) -> None:
    executor = Executor(
        "crm", admins=["http://a"], token="t" * 40, spool_dir=tmp_path, offers=[Echo()]
    )
    assert list(executor.handlers) == ["echo"]
    assert (await run_handler(executor, "echo")).result == "hello -"
    source = "echo"
    script = RunScript("shell", source, hashlib.sha256(source.encode()).hexdigest())
    assert (await run_handler(executor, "echo", script=script)).result == "hello shell"


def test_a_section_is_read_with_all_its_problems() -> None:
    problems: list[str] = []
    config = ConfigTable(
        "http",
        {
            "timeout": 5,
            "retries": "two",
            "size": 0,
            "names": ["a", 1],
            "follow": 1,
            "mode": "fats",
            "timeuot": 1,
            "more": 1,
            "inner": {"a": {"x": "y"}, "b": 3},
        },
        problems,
    )
    assert config.number("timeout", 1.0, least=0, most=10) == 5.0
    assert config.whole("retries", 3, least=0, most=5) == 3
    assert config.whole("size", 3, least=1, most=5) == 3
    assert config.texts("names", ("z",)) == ("z",)
    assert config.flag("follow") is False
    assert config.choice("mode", "fast", ("fast", "slow")) == "fast"
    assert config.text("absent", "x") == "x"
    assert config.whole_or_none("none", least=1, most=2) is None
    config.table("more")
    inner = config.tables("inner")
    assert inner["a"].text("x") == "y"
    assert inner["a"].finish() is False  # problems of others count: the file is refused whole
    assert not config.finish()
    assert problems == [
        "http.retries: this is a text; write a whole number from 0 to 5",
        "http.size: it is 0; write a whole number from 1 to 5",
        'http.names: not every entry is a text; write a list of texts: ["one", "two"]',
        "http.follow: this is a number; write true or false",
        "http.mode: 'fats' is not known; did you mean 'fast'?",
        "http.more: this is a number; write a table: [http.more]",
        "http.inner.b: this is a number; write a table: [http.inner.b]",
        "http.timeuot: there is no such setting; did you mean 'timeout'?",
    ]


async def test_a_failed_try_has_no_traceback_and_leaves_retries_to_the_job() -> None:
    async def call() -> None:
        raise Failed("the server answered 500")

    end = await run_handler(call)
    assert (end.outcome, end.message) == ("failed", "the server answered 500")
    assert not end.final
    assert end.retry_after is None
    assert end.lines("error") == ["the server answered 500"]
