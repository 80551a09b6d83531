"""Two versions of a script beside each other."""

from __future__ import annotations

import random

from tickwheel_admin.console.jobs.script_difference import (
    MOST_COMPARED,
    DifferenceRow,
    difference,
)


def shown(row: DifferenceRow) -> str:
    before = f"{row.before.number}:{row.before.text}" if row.before else "-"
    after = f"{row.after.number}:{row.after.text}" if row.after else "-"
    return before if row.is_same and before == after else f"{before}|{after}"


def parts(before: str, after: str) -> list[list[str]]:
    return [[shown(row) for row in part] for part in difference(before, after)]


def test_lines_stand_beside_each_other() -> None:
    assert parts("a\nb\nc\n", "a\nB\nc\n") == [["1:a", "2:b|2:B", "3:c"]]
    assert parts("a\nc\n", "a\nb\nc\n") == [["1:a", "-|2:b", "2:c|3:c"]]
    assert parts("a\nb\n", "a\n") == [["1:a", "2:b|-"]]
    assert parts("", "a\n") == [["-|1:a"]]
    assert parts("a\n", "a") == []  # the same lines


def test_only_what_is_about_a_change_is_shown() -> None:
    old = [f"line {n}" for n in range(1, 101)]
    new = [*old[:49], "changed", *old[50:89], *old[90:]]
    found = parts("\n".join(old), "\n".join(new))
    assert [len(part) for part in found] == [7, 7]
    assert found[0][3] == "50:line 50|50:changed"
    assert found[1][3] == "90:line 90|-"
    assert found[1][4] == "91:line 91|90:line 91"


def test_any_two_texts_are_told_whole() -> None:
    chance = random.Random(20)
    for _ in range(300):
        old, new = ([chance.choice("abc") for _ in range(chance.randrange(30))] for _ in "12")
        rows = [row for part in difference("\n".join(old), "\n".join(new)) for row in part]
        changed = [row for row in rows if not row.is_same]
        kept_old = [row.before.number for row in changed if row.before]
        kept_new = [row.after.number for row in changed if row.after]
        rest_old = [text for n, text in enumerate(old, 1) if n not in kept_old]
        rest_new = [text for n, text in enumerate(new, 1) if n not in kept_new]
        assert rest_old == rest_new


def test_huge_changes_are_not_compared_line_by_line() -> None:
    lines = MOST_COMPARED + 1
    (part,) = difference("a\n" * lines, "b\n" * lines)
    assert len(part) == lines
