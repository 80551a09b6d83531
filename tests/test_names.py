"""What keeps the code easy to find one's way in: one meaning for a name, no overfull folder."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ("admin", "executor_sdk", "shared", "tests")
MAX_FILES = 25


def test_no_two_public_classes_of_the_server_share_a_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "admin/tickwheel_admin").rglob("*.py")):
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
