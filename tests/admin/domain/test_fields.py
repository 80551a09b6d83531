"""What is said of fields that are not known."""

from __future__ import annotations

import pytest

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ((), "There is no field “colour”: none can be given here. Leave it out."),
        (("size", "weight"), "There is no field “colour”; known are size, weight."),
        (("color",), "There is no field “colour”; did you mean “color”?"),
    ],
)
def test_who_gives_an_unknown_field_is_told_what_can_be_given(
    known: tuple[str, ...], told: str
) -> None:
    problems: list[Problem] = []
    Fields({"colour": "red"}, "", problems).only(known)
    assert [each.message for each in problems] == [told]
