"""What messages say, in both languages, and what is left of texts from outside."""

from __future__ import annotations

import pytest

from tests.admin.channels.kit import BASE, HOSTILE, NOW, channel, entry, hostile_message, message
from tickwheel_admin.channels.text.cleaning import clean, clean_lines, lookalike
from tickwheel_admin.channels.text.compose import compose
from tickwheel_admin.channels.text.letter import Tone, fitted
from tickwheel_admin.channels.text.plain import plain_text
from tickwheel_admin.domain.alarms.channel import ChannelKind
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.labels import KIND_TITLES, OCCASION_TITLES
from tickwheel_admin.domain.alarms.message import Occasion
from tickwheel_admin.domain.alarms.trial import trial_message

SLACK = channel(ChannelKind.SLACK)
CHINESE = channel(ChannelKind.SLACK, language="zh_CN", time_zone="Asia/Shanghai")


def test_a_message_answers_what_since_when_how_often_and_where() -> None:
    before = entry(before_template="It had succeeded %(n)s times.", before_params={"n": 34})
    letter = compose(SLACK, message(before))

    assert letter.subject == "[Tickwheel prod-eu] Run failed: billing / nightly-report"
    assert plain_text(letter) == (
        "Run failed: billing / nightly-report\n"
        "Run #77 failed\n"
        "Since: 2026-03-29 01:00:00 +01:00\n"
        "How often: 3 times, last at 2026-03-29 03:00:00 +02:00\n"
        "Before: It had succeeded 34 times.\n"
        "Fires next: 2026-03-30 03:00:00 +02:00\n"
        "Owner: ann\n"
        "Rule: All failures\n"
        "Last error: ValueError: no such order\n"
        f"Run #77: {BASE}/runs/77\n"
        f"Log: {BASE}/runs/77/log\n"
        f"Retry …: {BASE}/runs/77/retry\n"
        f"Job: {BASE}/jobs/5\n"
        f"Acknowledge or mute: {BASE}/alarms/12\n"
        "\n"
        f"Show it: {BASE}/alarms\n"
        "\n"
        "-- \n"
        "Tickwheel prod-eu · channel “ops” · times of Europe/Berlin\n"
    )


def test_what_is_over_is_not_said_to_go_on() -> None:
    over = entry(occasion=Occasion.REPEATED, closed_at=NOW)
    text = plain_text(compose(SLACK, message(over)))

    assert "Still open" not in text
    assert "Over since: 2026-03-29" in text
    assert "Acknowledge" not in text


def test_the_same_in_chinese() -> None:
    letter = compose(CHINESE, message(entry(), entry(alarm_id=13), covered=60))

    assert letter.subject == (
        "[Tickwheel prod-eu] 60 条告警，第一条：运行失败：billing / nightly-report"
    )
    text = plain_text(letter)
    assert "开始于: 2026-03-29 08:00:00 +08:00" in text
    assert "还有 58 条" in text
    assert not {"Since", "Owner", "Last error", "more"} & set(text.replace(":", " ").split())


@pytest.mark.parametrize("occasion", Occasion)
@pytest.mark.parametrize("kind", AlarmKind)
def test_every_kind_has_its_words_on_every_occasion(kind: AlarmKind, occasion: Occasion) -> None:
    assert kind in KIND_TITLES
    assert occasion in OCCASION_TITLES
    alarm = message(entry(kind=kind, occasion=occasion))
    english, chinese = (compose(each, alarm).sections[0].title for each in (SLACK, CHINESE))

    assert english != chinese
    if occasion is not Occasion.TEST:
        assert KIND_TITLES[kind] in english
        assert KIND_TITLES[kind] not in chinese


@pytest.mark.parametrize(
    ("entries", "tone"),
    [
        ([entry()], Tone.BAD),
        ([entry(severity=Severity.WARNING)], Tone.WARNING),
        ([entry(occasion=Occasion.RECOVERED)], Tone.GOOD),
        ([entry(occasion=Occasion.RECOVERED), entry(severity=Severity.WARNING)], Tone.WARNING),
    ],
)
def test_the_look_is_that_of_the_worst(entries: list[object], tone: Tone) -> None:
    assert compose(SLACK, message(*entries)).tone is tone  # type: ignore[arg-type]


def test_nothing_is_to_be_done_about_what_is_over() -> None:
    section = compose(SLACK, message(entry(occasion=Occasion.RECOVERED))).sections[0]
    assert section.title.startswith("Recovered: ")
    assert [each.label for each in section.links] == ["Run #77", "Log", "Job", "Alarm"]


def test_a_test_says_what_it_is() -> None:
    trial = trial_message("t-1", installation="prod", link=f"{BASE}/alarms", now=NOW, by="ann")
    letter = compose(SLACK, trial)

    assert letter.subject == "[Tickwheel prod] Test of the channel “ops”"
    assert letter.tone is Tone.NEUTRAL
    assert letter.sections[0].sentence.startswith("ann tries this channel.")
    assert not letter.sections[0].facts


def test_no_part_of_a_message_is_empty() -> None:
    """Chat services refuse empty parts."""
    section = compose(SLACK, message(entry(template="", params={}))).sections[0]
    assert section.sentence == section.title != ""


def test_what_cannot_be_said_is_no_reason_to_say_nothing() -> None:
    strange = entry(template="%(missing)s at %d", params={"x": 1}, since=10**18)
    unknown = channel(ChannelKind.SLACK, time_zone="Atlantis/Centre")

    section = compose(unknown, message(strange)).sections[0]

    assert section.sentence == "%(missing)s at %d"
    assert section.facts[0].text == "?"


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_from_outside_stay_on_their_line_and_show_what_they_are(text: str) -> None:
    letter = compose(SLACK, hostile_message(text))

    shown = [letter.subject, letter.footer]
    for section in letter.sections:
        shown += [section.title, section.sentence, section.error_line, *section.own_lines]
        shown += [each.text for each in section.facts]
        assert [each.url for each in section.links] == [f"{BASE}/runs/77"]  # no javascript:
    for each in shown:
        assert not set(each) & set("\r\n\x00\x1b\u202e\u202c\u2066\u2069\u200b\ufeff") - set(
            "\u2069" if "\u2068" in each else ""
        )
        assert len(each) <= 1_000


def test_letters_from_right_to_left_are_isolated() -> None:
    assert clean("שלום") == "\u2068שלום\u2069"
    assert clean("\u202eabc") == "abc"
    assert clean("a\u200db") == "a\u200db"  # scripts need joiners


def test_lines_are_bounded() -> None:
    assert clean_lines("a\n\n\n\nb\n") == ("a", "", "b")
    assert len(clean_lines("x\n" * 10_000)) <= 21
    assert sum(map(len, clean_lines("y" * 10_000))) <= 1_500


def test_lookalikes_leave_names_readable() -> None:
    assert lookalike("nightly_report-2 (EU): 50 % of #7!") == "nightly_report-2 (EU): 50 % of #7!"
    assert lookalike("_em_ **x** <b> [a](b) @all") == "＿em＿ ＊＊x＊＊ ＜b＞ ［a］(b) ＠all"
    assert lookalike("# h\n- a\n1. b\nhttp://x") == "＃ h\n－ a\n1． b\nhttp：//x"


@pytest.mark.parametrize("limit", [100_000, 6_000, 2_000, 900, 1])
def test_what_does_not_fit_is_counted_and_linked(limit: int) -> None:
    letter = compose(SLACK, message(*(entry(alarm_id=n) for n in range(1, 51)), covered=400))

    text = fitted(letter, plain_text, size=len, limit=limit)

    told = text.count("Run #77 failed")
    assert len(text) <= max(limit, 200)
    assert f"and {400 - told} more" in text
    assert f"{BASE}/alarms" in text
    assert told or limit < 900
