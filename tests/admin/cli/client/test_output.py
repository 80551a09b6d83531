"""Tables, JSON and YAML."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from tickwheel_admin.cli.client.output.printer import Printer, Subtable
from tickwheel_admin.cli.client.output.style import Style, style_of
from tickwheel_admin.cli.client.output.table import (
    TableColumn,
    duration,
    instant,
    number,
    optional,
    state,
    table_lines,
    text,
)
from tickwheel_admin.cli.client.output.words import between, cut, length, visible, width_of

PIPE = Style(columns=None, colours=False, zone=ZoneInfo("Asia/Shanghai"))
COLUMNS = (
    number("ID", "id"),
    text("NAME", "config.name", cuttable=True),
    state("STATE", "state"),
    instant("AT", "at"),
    duration("TOOK", "ms"),
)
ITEMS: list[dict[str, Any]] = [
    {
        "id": 7,
        "config": {"name": "月报"},
        "state": "failed",
        "at": "2026-03-01T20:00:00Z",
        "ms": 950,
    },
    {"id": 12, "config": {"name": "a\x1b[2J"}, "state": "queued", "at": None, "ms": 61_000},
]


def printed(form: str, items: list[dict[str, Any]], style: Style = PIPE) -> str:
    out = io.StringIO()
    Printer(form, out=out, style=style).items(iter(items), COLUMNS, none="There is none.")
    return out.getvalue()


def test_a_table_is_aligned_by_columns_of_the_terminal() -> None:
    assert printed("table", ITEMS) == (
        "ID  NAME      STATE   AT                    TOOK\n"
        " 7  月报      failed  2026-03-02 04:00:00  950ms\n"
        "12  a\\x1b[2J  queued  -                    1m 1s\n"
    )
    assert printed("table", []) == "There is none.\n"


def test_json_and_yaml_hold_what_the_admin_said() -> None:
    assert json.loads(printed("json", ITEMS)) == ITEMS
    assert yaml.safe_load(printed("yaml", ITEMS)) == ITEMS
    assert json.loads(printed("json", [])) == yaml.safe_load(printed("yaml", [])) == []
    assert "月报" in printed("json", ITEMS)


def test_json_has_no_character_that_a_terminal_obeys() -> None:
    told = printed("json", [{"id": 1, "text": "\x9b2J\x1b[2J"}])
    assert not {"\x9b", "\x1b"} & set(told)
    assert json.loads(told)[0]["text"] == "\x9b2J\x1b[2J"


def test_a_narrow_terminal_cuts_what_may_be_cut() -> None:
    items = [{"id": 1, "config": {"name": "月" * 40}, "state": "failed", "at": None, "ms": 1}]
    style = Style(columns=40, colours=False)
    lines = list(table_lines(items, COLUMNS, style))
    assert all(width_of(line) <= 40 for line in lines)
    assert "月…" in lines[1]
    colours = list(table_lines(items, COLUMNS, Style(columns=200, colours=True)))
    assert "\x1b[31mfailed\x1b[0m" in colours[1]


def test_a_narrow_terminal_leaves_out_what_may_be_left_out() -> None:
    items = [{"id": 1, "config": {"name": "n" * 30}, "state": "failed", "at": None, "ms": 1}]
    columns = (*COLUMNS[:2], optional(COLUMNS[2]), optional(COLUMNS[3]), COLUMNS[4])

    def titles(width: int) -> list[str]:
        return next(table_lines(items, columns, Style(columns=width, colours=False))).split()

    assert titles(60) == ["ID", "NAME", "STATE", "AT", "TOOK"]
    assert titles(42) == ["ID", "NAME", "STATE", "TOOK"]
    assert titles(35) == titles(20) == ["ID", "NAME", "TOOK"]
    assert next(table_lines(items, columns, PIPE)).split() == titles(60)


def test_rows_are_not_held_back() -> None:
    read = 0

    def endless() -> Iterator[dict[str, Any]]:
        nonlocal read
        while True:
            read += 1
            yield {"id": read, "config": {"name": "x" * (read // 101 + 1)}}

    lines = table_lines(endless(), COLUMNS[:2], PIPE)
    for _ in range(103):
        last = next(lines)
    assert read == 102
    assert last == "102  xx"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "environment", "colours"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals(
    out: io.StringIO, environment: dict[str, str], colours: bool
) -> None:
    style = style_of(out, environment)
    assert style.colours == colours
    assert (style.columns is None) != isinstance(out, Terminal)


def test_an_object_has_a_line_for_each_field_and_its_tables() -> None:
    out = io.StringIO()
    sections = [
        Subtable(title="children", items=ITEMS, columns=COLUMNS[:2]),
        Subtable(title="none of them", items=[], columns=COLUMNS),
    ]
    Printer(out=out, style=PIPE).one(ITEMS[0], COLUMNS[:3], sections=sections)
    assert out.getvalue() == (
        "ID     7\nNAME   月报\nSTATE  failed\n"
        "\nchildren:\n  ID  NAME\n   7  月报\n  12  a\\x1b[2J\n"
    )


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(0, "0ms"), (999, "999ms"), (1500, "1.5s"), (61_000, "1m 1s"), (7_260_000, "2h 1m"),
     (90_000_000, "1d 1h"), (None, "-")],
)  # fmt: skip
def test_lengths_have_two_units(milliseconds: int | None, words: str) -> None:
    assert length(milliseconds) == words


def test_words_of_terminals() -> None:
    now = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
    assert between("2026-03-01T12:00:00Z", None, now) == "5.0s"
    assert between(None, None, now) == "-"
    assert (cut("月报报表", 5), cut("abc", 3), cut("abcd", 3)) == ("月报…", "abc", "ab…")
    assert width_of("e\u0301") == 1
    assert visible("a\tb\nc\u202e") == "a b\\nc\\x202e"
    assert visible("a\tb\nc\x07", lines=True) == "a\tb\nc\\x07"
    assert TableColumn(title="X", cell=lambda item, _: str(item["id"])).cell({"id": 1}, PIPE) == "1"
