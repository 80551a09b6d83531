"""Every command's help is made alike, and wrong usage is told by the command that was meant."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tickwheel_admin.cli import main
from tickwheel_admin.cli.commands import make_parser

NOT_SHOWN = {"tickwheel completion names"}  # for scripts


def all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from all_parsers(each)


def test_every_command_says_what_it_does_and_what_its_arguments_are() -> None:
    silent, unexplained, without_examples = [], [], []
    for parser in all_parsers(make_parser()):
        if parser.prog in NOT_SHOWN:
            continue
        if not parser.description:
            silent.append(parser.prog)
        groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        if groups and not parser.epilog:
            without_examples.append(parser.prog)
        unexplained += [
            f"{parser.prog} {each.dest}"
            for each in parser._actions
            if each.help is None and each not in groups
        ]
    assert (silent, unexplained, without_examples) == ([], [], [])


def test_no_argument_takes_the_place_of_what_a_command_does() -> None:
    """Which is kept beside them, as `run`."""
    wrong = [
        parser.prog
        for parser in all_parsers(make_parser())
        for each in parser._actions
        if each.dest == "run"
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("job lits", "tickwheel job: there is no command 'lits'; did you mean list?"),
        ("sevre", "tickwheel: there is no command 'sevre'; did you mean serve?"),
        ("job list --limt 3", "tickwheel job list: unknown: --limt, 3; did you mean --limit?"),
        ("serve --prot=1", "tickwheel serve: unknown: --prot=1; did you mean --port?"),
        ("job show a b", "tickwheel job show: unknown: b\n"),
        ("--foo job list", "tickwheel: unknown: --foo\n"),
        ("cron nxt", "tickwheel cron: there is no command 'nxt'; did you mean next?"),
        ("run start", "tickwheel run start: the following arguments are required: job\n"),
        (
            "job list --output xml",
            "tickwheel job list: argument -o/--output: invalid choice: 'xml'",
        ),
        ("job list --limt 3", "\n  `tickwheel job list --help` explains it.\n"),
        ("job", "start a run; the same as `run start`"),
        ("user", "forget a person"),
    ],
)
def test_wrong_usage_is_told_by_the_command_that_was_meant(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert told in said.err


def test_a_value_may_begin_with_a_dash_where_the_flag_has_such_values() -> None:
    parser = make_parser()
    assert parser.parse_args(["job", "list", "--sort", "-failure_rate"]).sort == "-failure_rate"
    assert parser.parse_args(["job", "list", "--sort=-name"]).sort == "-name"


def test_logs_leave_the_standard_output_to_what_the_command_tells(tmp_path: Path) -> None:
    environment = os.environ | {"TICKWHEEL_DATABASE_URL": "postgresql+psycopg://x@127.0.0.1:1/y"}
    done = subprocess.run(
        [sys.executable, "-m", "tickwheel_admin.cli", "doctor", "--output", "json"],
        env=environment | {"TICKWHEEL_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "database.unavailable" in done.stderr
    assert json.loads(done.stdout)["findings"][0]["check"] == "database.reach"
