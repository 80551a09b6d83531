"""Edits of a graph as edits of its text: what it says is right, and comments stay."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.services.jobs.workflow_text import EditKind, GraphEdit, edited
from tickwheel_admin.services.jobs.yaml_reader import read_yaml

TEXT = """\
# Nightly.
name: load
workflow:
  output: report  # what callers get
  steps:
    # first of all
    - key: extract
      handler: extract  # from the shop
      parameters:
        day: ${parameters.day}

    - key: convert
      handler: convert
      needs: [extract, check]
      for_each: ${steps.extract.result.files}
    - key: check
      approval: {}
      needs:
        - extract  # nobody looks at nothing
        - step: warm-up
          outcome: ended
    - key: warm-up
      handler: warm-up
    - key: report
      handler: report
      needs:
        - convert
      when: size(steps.extract.result.files) > 0 and steps.extract-2 == 1
      parameters:
        text: |
          Files: ${steps.extract.result.files}
          # not a comment; steps.extract stays
        rows: {list: "${steps.extract.result}"}
"""


def edit(kind: str, step: str, other: str = "", text: str = TEXT) -> str:
    return edited(text, GraphEdit(kind=EditKind(kind), step=step, other=other))


@pytest.mark.parametrize(
    ("asked", "gone", "new"),
    [
        (("add", "tell"), [], ["    - key: tell", '      handler: ""']),
        (
            ("add", "tell", "report"),
            [],
            ["    - key: tell", '      handler: ""', "      needs: [report]"],
        ),
        (("connect", "convert", "warm-up"), ["      needs: [extract, check]"],
         ["      needs: [extract, check, warm-up]"]),
        (("connect", "extract", "warm-up"), [], ["      needs: [warm-up]"]),
        (("connect", "check", "convert"), [], ["        - convert"]),
        (("connect", "check", "extract"), [], []),
        (("disconnect", "convert", "extract"), ["      needs: [extract, check]"],
         ["      needs: [check]"]),
        (("disconnect", "convert", "check"), ["      needs: [extract, check]"],
         ["      needs: [extract]"]),
        (("disconnect", "check", "warm-up"),
         ["        - step: warm-up", "          outcome: ended"], []),
        (("disconnect", "report", "convert"), ["      needs:", "        - convert"], []),
        (("rename", "warm-up", "heat"), ["        - step: warm-up", "    - key: warm-up"],
         ["        - step: heat", "    - key: heat"]),
        (
            ("rename", "extract", "null"),
            [
                "    - key: extract", "      needs: [extract, check]",
                "      for_each: ${steps.extract.result.files}",
                "        - extract  # nobody looks at nothing",
                "      when: size(steps.extract.result.files) > 0 and steps.extract-2 == 1",
                "          Files: ${steps.extract.result.files}",
                '        rows: {list: "${steps.extract.result}"}',
            ],
            [
                '    - key: "null"', '      needs: ["null", check]',
                "      for_each: ${steps.null.result.files}",
                '        - "null"  # nobody looks at nothing',
                "      when: size(steps.null.result.files) > 0 and steps.extract-2 == 1",
                "          Files: ${steps.null.result.files}",
                '        rows: {list: "${steps.null.result}"}',
            ],
        ),
        (
            ("remove", "convert"),
            [
                "    - key: convert", "      handler: convert", "      needs: [extract, check]",
                "      for_each: ${steps.extract.result.files}", "      needs:",
                "        - convert",
            ],
            [],
        ),
        (("remove", "warm-up"),
         ["        - step: warm-up", "          outcome: ended", "    - key: warm-up",
          "      handler: warm-up"], []),
    ],
)  # fmt: skip
def test_only_the_lines_of_an_edit_change(
    asked: tuple[str, ...], gone: list[str], new: list[str]
) -> None:
    before, after = TEXT.splitlines(), edit(*asked).splitlines()
    rest = list(after)
    for line in before:
        if line in rest:
            rest.remove(line)
    assert rest == new
    kept = list(before)
    for line in after:
        if line in kept:
            kept.remove(line)
    assert kept == gone


def test_the_output_goes_with_its_step() -> None:
    assert "output" not in edit("remove", "report")
    assert "  output: summary  # what callers get" in edit("rename", "report", "summary")


def test_what_is_written_in_one_line_is_written_anew() -> None:
    text = "workflow: {steps: [{key: a, handler: x}, {key: b, handler: y, needs: [a]}]}"
    steps = read_yaml(edit("remove", "a", text=text)).value["workflow"]["steps"]
    assert steps == [{"key": "b", "handler": "y"}]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (("remove", "none"), "step"),
        (("connect", "report", "none"), "step"),
        (("add", "report"), "key"),
        (("add", "Not A Key"), "key"),
        (("rename", "report", "check"), "key"),
    ],
)
def test_an_edit_that_means_nothing_is_refused(asked: tuple[str, ...], field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        edit(*asked)
    assert error.value.problems[0].field == field


def test_many_edits_after_each_other_keep_every_comment_that_stands_alone() -> None:
    rng = Random(7)
    text = TEXT
    for number in range(60):
        keys = [step["key"] for step in _steps(text)]
        kind = rng.choice([*EditKind, EditKind.ADD])
        if kind is EditKind.REMOVE and len(keys) < 4:
            continue
        step = f"n-{number}" if kind is EditKind.ADD else rng.choice(keys)
        other = f"r-{number}" if kind is EditKind.RENAME else rng.choice(keys)
        text = edit(kind.value, step, other, text=text)
        assert "# Nightly." in text
        assert "# first of all" in text
    assert len({step["key"] for step in _steps(text)}) == len(_steps(text)) >= 4


def _steps(text: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = read_yaml(text).value["workflow"]["steps"]
    return steps
