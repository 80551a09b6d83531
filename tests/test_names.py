"""What keeps the code easy to find one's way in: one meaning for a name, no overfull folder."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("admin", "executor_sdk", "shared", "tests")
MAX_FILES = 25


@pytest.mark.parametrize("package", ["admin/tickwheel_admin", "executor_sdk/tickwheel_executor"])
def test_no_two_public_classes_that_meet_share_a_name(package: str) -> None:
    """Server and SDK have runs and nodes of their own; both meet what they share."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    paths = [*(ROOT / package).rglob("*.py"), *(ROOT / "shared/tickwheel_shared").rglob("*.py")]
    for path in sorted(paths):
        for name in re.findall(r"(?m)^class ([A-Za-z]\w*)", path.read_text()):
            places[name].append(str(path.relative_to(ROOT)))
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert shared == {}


def test_no_folder_holds_more_files_than_one_can_look_over() -> None:
    files = Counter(
        str(path.parent.relative_to(ROOT))
        for part in CODE
        for path in (ROOT / part).rglob("*.py")
        if not {".venv", "__pycache__"} & set(path.parts)
    )
    assert {folder: count for folder, count in files.items() if count > MAX_FILES} == {}
