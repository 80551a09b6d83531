"""Names that people can see and tell apart."""

from __future__ import annotations

import unicodedata

import pytest

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import checked_name
from tickwheel_admin.domain.input.calendar import parse_calendar
from tickwheel_admin.domain.input.job import parse_job, parse_tag
from tickwheel_admin.domain.names import normal_name, unseen_character
from tickwheel_admin.domain.users.saved_view import parse_name

UNSEEN = {
    "\u200b": "U+200B ZERO WIDTH SPACE",
    "\u00ad": "U+00AD SOFT HYPHEN",
    "\u2060": "U+2060 WORD JOINER",
    "\ufeff": "U+FEFF ZERO WIDTH NO-BREAK SPACE",
    "\U000e0061": "U+E0061 TAG LATIN SMALL LETTER A",
    "\u061c": "U+061C ARABIC LETTER MARK",
    "\u3164": "U+3164 HANGUL FILLER",
    "\u2800": "U+2800 BRAILLE PATTERN BLANK",
    "\u115f": "U+115F HANGUL CHOSEONG FILLER",
    "\u1160": "U+1160 HANGUL JUNGSEONG FILLER",
    "\uffa0": "U+FFA0 HALFWIDTH HANGUL FILLER",
    "\u034f": "U+034F COMBINING GRAPHEME JOINER",
    "\ufe0f": "U+FE0F VARIATION SELECTOR-16",
    "\u200d": "U+200D ZERO WIDTH JOINER",
    "\u200c": "U+200C ZERO WIDTH NON-JOINER",
    "\ue000": "U+E000",
    "\u0378": "U+0378",
    "\u202e": "U+202E RIGHT-TO-LEFT OVERRIDE",
}
SEEN = (
    *(
        "invoices",
        "Rechnungen für März",
        "发票 2026",
        "帳票",
        "한국어",
        "счета",
        "🎉 done",
        "a\u0308\u0323",
    ),
    *("👩\u200d💻", "❤\ufe0f", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "👋🏽", "👩🏽\u200d🚀"),
    *("क्\u200dष", "न्\u200cन", "می\u200cخواهم"),
)


@pytest.mark.parametrize("char", UNSEEN)
def test_what_nobody_sees_is_named(char: str) -> None:
    for text in (f"pay{char}roll", f"payroll{char}", char):
        assert unseen_character(text) == UNSEEN[char]


@pytest.mark.parametrize("name", SEEN)
def test_what_scripts_and_emoji_need_is_taken(name: str) -> None:
    assert unseen_character(normal_name(name)) is None


def test_a_name_has_one_form() -> None:
    composed = "Café 発\u304c"
    apart = unicodedata.normalize("NFD", composed)
    assert apart != composed
    for text in (composed, apart, f"\u3000{apart}\u00a0", composed.replace(" ", "\u2003")):
        assert normal_name(text) == composed


def refused(what: object, *args: object) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidInput) as caught:
        what(*args)  # type: ignore[operator]
    return [(p.field, p.code, p.params["character"]) for p in caught.value.problems]


def test_every_name_that_people_give_goes_by_it() -> None:
    bad, told = "a\u200bb", UNSEEN["\u200b"]
    job = {"name": bad, "handler": bad, "owner": bad}
    fields = ("name", "handler", "owner")
    assert refused(parse_job, job) == [(each, "invisible_character", told) for each in fields]
    calendar = {"name": bad, "dates": ["2027-10-01"]}
    assert refused(parse_calendar, calendar) == [("name", "invisible_character", told)]
    assert refused(parse_name, bad) == [("name", "invisible_character", told)]
    assert refused(parse_tag, bad) == [("tag", "invisible_character", told)]
    assert refused(checked_name, "name", bad) == [("name", "invisible_character", told)]

    apart = unicodedata.normalize("NFD", "é")
    config = parse_job({"name": apart, "handler": apart, "owner": apart, "tags": [apart]})
    assert (config.name, config.owner, config.tags) == ("é", "é", ("é",))
    assert config.handler == apart  # code compares it letter by letter
