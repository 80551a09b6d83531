"""The recipes of CONTRIBUTING.md: each list of files is complete (that they exist: test_documents).

What the code already has shows which files a new one needs: every file that names an existing
strategy, kind, page or endpoint must be in the recipe for the next one.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.test_documents import tracked

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "CONTRIBUTING.md"
PRODUCT = ("admin/", "executor_sdk/", "shared/", "sql/", "docs/jobs.md", "docs/schedules.md")
TESTS = ("tests/admin/domain/", "tests/simulation/", "tests/interleavings/")
OTHERS = (  # generated, examples that use what there is, and what other schedulers have
    "admin/tickwheel_admin/console/documents.json",
    "admin/tickwheel_admin/cli/demo_jobs.py",
    "admin/tickwheel_admin/domain/imports/quartz/triggers.py",
    "admin/tickwheel_admin/domain/xxl_job/mapping.py",
    "tests/admin/domain/xxl_job/test_mapping.py",
    "tests/simulation/xxl_executors/jobs.py",
)


def recipes() -> dict[str, list[str]]:
    """The paths of each recipe's lists, by its heading."""
    text = GUIDE.read_text(encoding="utf-8").partition("## Recipes")[2].partition("\n## ")[0]
    parts = re.split(r"^### (.+)$", text, flags=re.MULTILINE)
    return {
        title: [
            path
            for line in re.findall(r"^- (.+)$", part, re.MULTILINE)
            for path in re.findall(r"`([\w.<>/-]+/[\w.<>/-]+)`", line)
        ]
        for title, part in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_recipe_has_a_list_of_files() -> None:
    assert len(recipes()) >= 6
    for title, paths in recipes().items():
        assert paths, title


@pytest.mark.parametrize(
    ("title", "most"),
    [
        ("A routing strategy", 3),
        ("A trigger kind", 8),
        ("A page of the console", 6),
        ("An API endpoint", 3),
    ],
)
def test_the_usual_changes_touch_few_files(title: str, most: int) -> None:
    """What is always touched: lists under “Only if” do not count, nor examples in a line."""
    part = (
        GUIDE.read_text(encoding="utf-8").partition(f"### {title}\n")[2].partition("\nOnly if")[0]
    )
    lines = re.findall(r"^- (.+?): ", part, re.MULTILINE)
    assert 0 < sum(line.count("`") // 2 for line in lines) <= most


@pytest.mark.parametrize(
    ("title", "example", "where"),
    [
        ("A routing strategy", r"BUSY_OVER|least_frequently_used|LEAST_FREQUENTLY_USED", PRODUCT),
        ("A routing strategy", r"busy_over|BUSY_OVER", TESTS),
        ("A routing strategy", r"Memory\.BUSY", PRODUCT),
        (
            "A trigger kind",
            r"daily_window|DailyWindow|calendar_interval|CalendarInterval",
            (*PRODUCT, "docs/api.md"),
        ),
        (
            "A trigger kind",
            r"daily_window|DailyWindow|calendar_interval|CalendarInterval",
            ("tests/simulation/",),
        ),
        ("A page of the console", r"/about[\"']|system/about|system import about", PRODUCT),
        ("An API endpoint", r"/api/v1/attention|import attention", ("admin/tickwheel_admin/api/",)),
    ],
)
def test_the_list_is_complete(title: str, example: str, where: tuple[str, ...]) -> None:
    patterns = [re.sub(r"<[a-z_]+>", "*", path) for path in recipes()[title]]
    for path in tracked():
        if not path.startswith(where) or path in OTHERS or not (ROOT / path).is_file():
            continue
        if Path(path).suffix not in (".py", ".html", ".js", ".css", ".md", ".po", ".sql"):
            continue
        if re.search(example, (ROOT / path).read_text(encoding="utf-8")):
            assert any(fnmatch(path, pattern) for pattern in patterns), path
