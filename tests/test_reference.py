"""What of the documents is made from the code is what the code makes now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.documents import PARTS
from tests.support.references.error_codes import PROBLEM, refusals
from tests.support.references.made_parts import with_part
from tests.support.references.settings_reference import NAMES
from tickwheel_admin.config_meanings import MEANINGS

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", PARTS, ids=lambda page: page.name)
def test_a_page_has_what_is_made_for_it_now(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == with_part(text, PARTS[page]()), "run python -m tests.support.documents"


def test_a_page_without_a_place_for_it_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks"):
        with_part("# A page", "what is made")


def test_every_setting_has_a_meaning() -> None:
    assert MEANINGS.keys() == set(NAMES)


def test_codes_that_the_page_about_the_api_explains_exist() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    table = text.partition("## Errors")[2].partition("\n## ")[0]
    explained = {
        (int(status), code)
        for status, codes in re.findall(r"^\| (\d{3}) \| (.+?) \|", table, re.MULTILINE)
        for code in re.findall(r"`([a-z_.]+)`", codes)
    }
    known = {(each.status, each.code) for each in refusals() if each.status != PROBLEM}
    assert len(explained) > 50
    assert explained <= known


def test_codes_are_found_in_every_way_in_which_the_code_refuses() -> None:
    found = {(each.status, each.code): each.text for each in refusals()}
    assert found[405, "method_not_allowed"]  # of a table
    assert found[409, "job.changed"]  # raised as it is
    assert found[409, "job.name_taken"]  # a constant
    assert found[PROBLEM, "required"]  # noted for a field
    assert (PROBLEM, "timezone") not in found  # the field of an argument
