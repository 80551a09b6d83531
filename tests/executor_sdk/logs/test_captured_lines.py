"""Prints, logging and structlog inside a handler: each line once, and with its level."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from tickwheel_executor import Run, structlog_lines
from tickwheel_executor.logs.capture import capture
from tickwheel_executor.testing import HandlerEnd, run_handler
from tickwheel_shared.protocol import MAX_LINE_CHARS


def lines(end: HandlerEnd) -> list[tuple[str, str]]:
    return [(line.level, line.text) for line in end.log]


async def test_prints_are_printed_and_are_lines_of_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def work() -> None:
        print("to stdout", 1)
        await asyncio.create_task(deeper())
        print("to stderr", file=sys.stderr)
        print("never", end="")
        print(" torn", end="")
        print(" apart")
        sys.stdout.writelines(["a\n", "b\n"])
        print("two\nlines")
        print("without an end", end="")

    async def deeper() -> None:
        print("from a child")

    end = await run_handler(work)
    assert lines(end) == [
        ("info", "to stdout 1"),
        ("info", "from a child"),
        ("warning", "to stderr"),
        ("info", "never torn apart"),
        ("info", "a"),
        ("info", "b"),
        ("info", "two"),
        ("info", "lines"),
        ("info", "without an end"),
    ]
    printed = capsys.readouterr()
    assert printed.err == "to stderr\n"
    assert printed.out.startswith("to stdout 1\nfrom a child\nnever torn apart\n")
    assert printed.out.endswith("two\nlines\nwithout an end")


def test_a_progress_bar_is_one_line() -> None:
    def work() -> None:
        for done in range(0, 101, 10):
            sys.stderr.write(f"\r{done}%")
        sys.stderr.write("\n")
        sys.stdout.write("windows\r\n")
        print("half\rwhole", end="")

    end = run_handler(work).result()
    assert lines(end) == [("warning", "100%"), ("info", "windows"), ("info", "whole")]


def test_what_is_printed_without_a_newline_does_not_pile_up() -> None:
    def work(run: Run) -> int:
        most = 0
        for _ in range(100):
            sys.stdout.write("x" * 1000)
            most = max(most, *(len(rest) for rest in run.log._unfinished.values()), 0)
        return most

    end = run_handler(work).result()
    assert end.result <= 16_000
    assert sum(len(line.text) for line in end.log) >= 16_000


def test_a_long_line_is_one_line() -> None:
    def work() -> None:
        print("x" * 20_000)
        print()
        sys.stdout.write("y" * 20_000)
        sys.stdout.write("\nnext")

    told = [text for _, text in lines(run_handler(work).result())]
    assert [(text[:1], len(text)) for text in told] == [
        ("x", MAX_LINE_CHARS),
        ("", 0),
        ("y", MAX_LINE_CHARS),
        ("n", 4),
    ]


def test_threads_do_not_cut_up_each_others_lines() -> None:
    half, whole = threading.Event(), threading.Event()

    def other(run: Run) -> None:
        half.wait(10)
        run.log.printed("info", "other\n")  # type: ignore[arg-type]
        whole.set()

    def work(run: Run) -> None:
        thread = threading.Thread(target=other, args=(run,))
        thread.start()
        print("one ", end="")
        half.set()
        whole.wait(10)
        print("line")
        thread.join()

    assert lines(run_handler(work).result()) == [("info", "other"), ("info", "one line")]


def test_what_others_print_is_not_in_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    printed = threading.Event()

    def host() -> None:
        print("of the host")
        logging.getLogger("host").error("of the host")
        printed.set()

    def work() -> None:
        threading.Thread(target=host).start()
        printed.wait(10)

    assert lines(run_handler(work).result()) == []
    assert "of the host" in capsys.readouterr().out


@contextlib.contextmanager
def no_root_handlers() -> Iterator[None]:
    """As in a program that has not set up logging; pytest has."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)


def test_a_logging_handler_that_writes_to_stderr_doubles_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work() -> None:
        logging.basicConfig(level=logging.INFO, format="%(message)s")  # takes hold of sys.stderr
        logging.getLogger("lib").info("once")
        apart = logging.getLogger("apart")
        apart.propagate = False
        apart.handlers[:] = [logging.StreamHandler()]
        apart.warning("once, too")
        apart.handlers.clear()
        apart.propagate = True

    with no_root_handlers():
        end = run_handler(work).result()
    assert lines(end) == [("info", "once"), ("warning", "once, too")]
    assert capsys.readouterr().err == "once\nonce, too\n"


def test_the_services_own_logging_is_not_changed(capsys: pytest.CaptureFixture[str]) -> None:
    before = logging.Logger.callHandlers
    with no_root_handlers():
        capture.begin()
        try:
            assert logging.getLogger().handlers == []  # basicConfig, Flask, werkzeug look for some
            logging.getLogger("service").warning("the last resort of logging")
            logging.basicConfig(format="configured %(message)s")
            logging.getLogger("service").warning("later")
        finally:
            capture.end()
    assert logging.Logger.callHandlers is before
    assert capsys.readouterr().err == "the last resort of logging\nconfigured later\n"


def test_whoever_stands_in_for_the_same_things_later_is_left_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a library for error reports does: it calls us, also when nothing is to be captured."""

    def work() -> None:
        logging.getLogger("lib").warning("logged")
        print("printed")

    seen: list[str] = []
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(logging.Logger, "callHandlers", logging.Logger.callHandlers)
    capture.begin()
    ours, our_stdout = logging.Logger.callHandlers, sys.stdout

    def theirs(logger: logging.Logger, record: logging.LogRecord) -> None:
        seen.append(record.getMessage())
        ours(logger, record)

    logging.Logger.callHandlers = theirs  # type: ignore[assignment,method-assign]
    sys.stdout = theirs_stdout = io.TextIOWrapper(io.BytesIO())
    capture.end()
    assert logging.Logger.callHandlers is theirs  # type: ignore[comparison-overlap]
    assert sys.stdout is theirs_stdout
    our_stdout.write("goes through")

    assert lines(run_handler(work).result()) == [("warning", "logged"), ("info", "printed")]
    assert seen == ["logged"]


def test_a_log_call_that_cannot_be_formatted_is_told_and_fails_nothing() -> None:
    def work() -> str:
        logging.getLogger("lib").error("%d items", "three")
        return "done"

    with no_root_handlers():
        end = run_handler(work).result()
    assert end.result == "done"
    assert ("error", "'%d items' cannot be formatted with ('three',)") in lines(end)


def test_redirected_output_is_where_the_handler_wants_it() -> None:
    def work() -> str:
        with contextlib.redirect_stdout(io.StringIO()) as own:
            print("for me")
        return own.getvalue()

    end = run_handler(work).result()
    assert (end.result, lines(end)) == ("for me\n", [])


def test_the_streams_stand_in_for_the_real_ones() -> None:
    before = sys.stdout, sys.stderr
    capture.begin()
    try:
        assert sys.stdout is not before[0]
        assert sys.stdout.encoding == before[0].encoding
        assert sys.stdout.isatty() == before[0].isatty()
        assert sys.stdout.buffer is before[0].buffer
        assert print("", end="", flush=True) is None  # type: ignore[func-returns-value]
    finally:
        capture.end()
    assert (sys.stdout, sys.stderr) == before


@pytest.fixture
def configure() -> Iterator[Callable[..., None]]:
    structlog.reset_defaults()  # a command that ran in this process has configured it
    yield structlog.configure
    structlog.reset_defaults()


def test_structlog_is_captured_as_any_print(configure: Callable[..., None]) -> None:
    configure(processors=[structlog.processors.JSONRenderer(sort_keys=True)])

    def work() -> None:
        structlog.get_logger().warning("low", items=3)

    assert lines(run_handler(work).result()) == [("info", '{"event": "low", "items": 3}')]


@pytest.mark.parametrize("factory", [structlog.PrintLoggerFactory, structlog.WriteLoggerFactory])
def test_structlog_with_our_processor_keeps_its_level_and_doubles_nothing(
    configure: Callable[..., None], factory: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(
        processors=[structlog.processors.JSONRenderer(sort_keys=True), structlog_lines],
        logger_factory=factory(),
    )

    def work() -> None:
        log = structlog.get_logger()
        log.debug("a")
        log.warning("b", items=3)
        log.exception("c")
        print("plain")
        print('{"event": "a"}')

    structlog.get_logger().error("outside")
    assert lines(run_handler(work).result()) == [
        ("debug", '{"event": "a"}'),
        ("warning", '{"event": "b", "items": 3}'),
        ("error", '{"event": "c", "exc_info": true}'),
        ("info", "plain"),
        ("info", '{"event": "a"}'),
    ]
    assert capsys.readouterr().out.count("\n") == 6


def test_structlog_through_logging_keeps_its_level_with_and_without_our_processor(
    configure: Callable[..., None],
) -> None:
    configure(
        processors=[structlog.processors.JSONRenderer(), structlog_lines],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )

    def work() -> None:
        structlog.get_logger().warning("b")

    assert lines(run_handler(work).result()) == [("warning", '{"event": "b"}')]
