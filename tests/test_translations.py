"""Pages in Chinese say what the English ones say: the same headings, code and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUFFIX = ".zh-CN.md"
TRANSLATIONS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("", "docs", "docker", "executor_sdk")
    for path in (ROOT / folder).glob(f"*{SUFFIX}")
)
REMEDY = (
    "Change both pages together. If you do not write Chinese, translate as well as you can "
    "and ask for a review: a page that says less than the English one is worse than a clumsy one."
)

_CHINESE = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
_FENCE = re.compile(r"^ *(?:```|~~~)")
_TEXT_OF_A_LINE = re.compile(r"\"[^\"]*\"|'[^']*'|(?:^|\s)(?:#|//|--) .*$|\s{2,}\S.*$")


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a page is the same in every language, in the order of the page."""

    headings: list[int]  # their levels
    code: list[list[str]]  # the lines of each block, with its fences
    tables: list[tuple[int, ...]]  # the number of columns in each row
    marks: list[str]  # what the tests read: HTML comments, up to the first colon
    names: frozenset[str]  # code within sentences and tables: names of fields, commands, values

    @classmethod
    def of(cls, text: str) -> Shape:
        headings, code, tables, marks = [], list[list[str]](), list[tuple[int, ...]](), list[str]()
        names = set[str]()
        block: list[str] | None = None
        row_before = False
        for line in text.splitlines():
            if _FENCE.match(line):
                if block is None:
                    block = [line]
                else:
                    code.append([*block, line])
                    block = None
                continue
            if block is not None:
                block.append(line)
                continue
            if heading := re.match(r"(#+) ", line):
                headings.append(len(heading[1]))
            if mark := re.match(r" *<!-- *([^:>]*?) *(?::|-->)", line):
                marks.append(mark[1])
            names.update(re.findall(r"`([^`]+)`", line))
            is_row = line.lstrip().startswith("|")
            if is_row:
                columns = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) - 1
                tables.append((*(tables.pop() if row_before else ()), columns))
            row_before = is_row
        return cls(headings=headings, code=code, tables=tables, marks=marks, names=frozenset(names))


def same_code(english: list[str], chinese: list[str]) -> bool:
    """Whether two blocks are the same but for comments and texts that are in Chinese."""
    return len(english) == len(chinese) and all(
        theirs == ours
        or (
            _CHINESE.search(ours) is not None
            and _TEXT_OF_A_LINE.sub("", theirs) == _TEXT_OF_A_LINE.sub("", ours)
        )
        for theirs, ours in zip(english, chinese, strict=True)
    )


def differences(english: str, chinese: str) -> list[str]:
    """What the Chinese page lacks, or has and the English one has not."""
    theirs, ours = Shape.of(english), Shape.of(chinese)
    found = [
        f"{what}: {len(there)} in English, {len(here)} in Chinese, "
        f"the first that differs is number {first_difference(there, here)}"
        for what, there, here in (
            ("headings, by level", theirs.headings, ours.headings),
            ("tables, by rows and columns", theirs.tables, ours.tables),
            ("marks (<!-- … -->)", theirs.marks, ours.marks),
        )
        if there != here
    ]
    for what, only in (
        ("lacks", theirs.names - ours.names),
        ("alone has", ours.names - theirs.names),
    ):
        if only:
            found.append(f"the Chinese page {what} `{'`, `'.join(sorted(only))}`")
    if len(theirs.code) != len(ours.code):
        found.append(f"blocks of code: {len(theirs.code)} in English, {len(ours.code)} in Chinese")
    found += [
        f"block of code number {number} is another one; it begins with: {there[1:2]}"
        for number, (there, here) in enumerate(zip(theirs.code, ours.code, strict=False), 1)
        if not same_code(there, here)
    ]
    return found


def first_difference(there: Sequence[object], here: Sequence[object]) -> int:
    same = [left == right for left, right in zip(there, here, strict=False)]
    return same.index(False) + 1 if False in same else len(same) + 1


def original_of(translation: str) -> str:
    return translation.removesuffix(SUFFIX) + ".md"


def test_there_are_translations() -> None:
    assert {"README.zh-CN.md", "docs/jobs.zh-CN.md"} <= set(TRANSLATIONS)


@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_a_translation_has_what_its_original_has(translation: str) -> None:
    original = original_of(translation)
    assert (ROOT / original).exists(), f"{translation} has no {original}: rename or delete it."
    found = differences(
        (ROOT / original).read_text(encoding="utf-8"),
        (ROOT / translation).read_text(encoding="utf-8"),
    )
    told = "\n  ".join(found)
    assert not found, f"{translation} is not what {original} is:\n  {told}\n{REMEDY}"


@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_a_page_and_its_translation_lead_to_each_other(translation: str) -> None:
    original = original_of(translation)
    for page, words, other in (
        (translation, "English", original),
        (original, "简体中文", translation),
    ):
        link = f"[{words}]({Path(other).name})"
        head = (ROOT / page).read_text(encoding="utf-8").splitlines()[:10]
        assert any(link in line for line in head), f"write {link} below the title of {page}"


@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_a_translation_leads_to_translations(translation: str) -> None:
    text = (ROOT / translation).read_text(encoding="utf-8")
    folder = (ROOT / translation).parent
    for words, target in re.findall(r"\[([^\]]*)\]\(([^)\s#:]+\.md)[^)]*\)", text):
        page = (folder / target).resolve().relative_to(ROOT).as_posix()
        better = page.removesuffix(".md") + SUFFIX
        if words != "English" and better in TRANSLATIONS:
            there = relpath(ROOT / better, folder)
            pytest.fail(f"{translation}: [{words}]({target}) leads to English; there is {there}")


ENGLISH = """# A page

| a | b |
|---|---|
| `x|y` | 1 |

## Part

The field `limit` is a number.

<!-- not run: needs a server -->
```sh
tickwheel serve  # starts it
echo done
```
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("# starts it", "# 启动", None),
        ("## Part", "## 部分", None),
        ("needs a server", "需要服务器", None),
        ("## Part\n", "", "headings"),
        ("## Part", "### Part", "headings"),
        ("| `x|y` | 1 |\n", "| `x|y` | 1 |\n| `x|y` | 2 |\n", "tables"),
        ("| `x|y` | 1 |", "| `x|y` | 1 | 2 |", "tables"),
        ("<!-- not run: needs a server -->\n", "", "marks"),
        ("The field `limit` is a number.", "字段 `limit` 是数字。", None),
        ("The field `limit`", "The field `limits`", "the Chinese page"),
        ("echo done", "echo 1", "block of code number 1"),
        ("echo done", "echo 完成", "block of code number 1"),
        ("tickwheel serve  # starts it", "tickwheel start  # 启动", "block of code number 1"),
    ],
)
def test_what_is_a_difference(old: str, new: str, found: str | None) -> None:
    assert old in ENGLISH
    told = differences(ENGLISH, ENGLISH.replace(old, new))
    assert bool(told) == (found is not None)
    assert all(each.startswith(str(found)) for each in told)
