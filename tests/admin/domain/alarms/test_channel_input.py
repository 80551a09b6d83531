"""Channels as people write them: every problem at once, and secrets that are only written."""

from __future__ import annotations

from typing import Any

import pytest

from tickwheel_admin.domain.alarms.channel import ChannelKind
from tickwheel_admin.domain.alarms.channel_fields import CHANNEL_KINDS, FieldForm
from tickwheel_admin.domain.alarms.channel_values import READERS, header_items, headers
from tickwheel_admin.domain.alarms.destination import destination
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.alarm_channel import (
    ChannelInput,
    StoredSecrets,
    missing_fields,
    parse_channel,
)

LANGUAGES = ("en", "zh_CN")
CANARY = "canary-77aa01"
MAIL: dict[str, Any] = {
    "name": "ops",
    "kind": "email",
    "settings": {"host": "mail.example", "sender": "a@b.example", "recipients": "c@d.example"},
}
BOT: dict[str, Any] = {"name": "chat", "kind": "slack", "secrets": {"url": "https://h.example/x"}}
HOOK: dict[str, Any] = {"name": "hook", "kind": "webhook", "settings": {"url": "http://h.example"}}


def parsed(raw: object, stored: StoredSecrets | None = None) -> ChannelInput:
    return parse_channel(raw, languages=LANGUAGES, stored=stored)


def problems(raw: object, stored: StoredSecrets | None = None) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        parsed(raw, stored)
    assert CANARY not in str(caught.value)
    return {each.field: each.code for each in caught.value.problems}


def test_every_kind_has_fields_that_can_be_read() -> None:
    assert set(CHANNEL_KINDS) == set(ChannelKind)
    for spec in CHANNEL_KINDS.values():
        assert any(each.is_required for each in spec.fields)
        for each in spec.fields:
            assert (each.form is FieldForm.CHOICE) == bool(each.choices)
            assert each.form in READERS or each.choices
            assert not (each.is_secret and each.default)


def test_a_channel_is_filled_in() -> None:
    found = parsed(MAIL)
    assert found == ChannelInput(
        name="ops",
        kind=ChannelKind.EMAIL,
        language="en",
        time_zone="UTC",
        per_minute=20,
        settings={**MAIL["settings"], "security": "starttls"},
        secrets={},
    )


def test_every_problem_is_told_at_once() -> None:
    assert problems(
        {
            "name": "",
            "kind": "email",
            "language": "fr",
            "time_zone": "Berlin",
            "per_minute": 0,
            "settings": {
                "host": "a b", "port": "70000", "security": "ssl", "sender": "x", "colour": "red",
                "recipients": "a@b.example, x",
            },
            "secrets": {"password": CANARY},
            "extra": 1,
        }
    ) == {
        "extra": "unknown_field",
        "name": "required",
        "language": "not_one_of",
        "time_zone": "timezone.unknown",
        "per_minute": "out_of_range",
        "settings.colour": "unknown_field",
        "settings.host": "channel.host_invalid",
        "settings.port": "channel.port_invalid",
        "settings.security": "not_one_of",
        "settings.sender": "channel.address_invalid",
        "settings.recipients": "channel.addresses_invalid",
        "settings.username": "required",
    }  # fmt: skip
    assert problems({"name": "x"}) == {"kind": "required"}
    assert problems({"name": "x", "kind": "pigeon"}) == {"kind": "not_one_of"}
    assert problems([]).keys() >= {""}
    assert problems({**BOT, "secrets": "x", "settings": 7}) == {
        "secrets": "wrong_type",
        "settings": "wrong_type",
        "secrets.url": "required",
    }


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (FieldForm.HOST, ["mail.example", "10.0.0.1", "::1"], ["a b", "a/b", "a..b", "-x", "é"]),
        (FieldForm.PORT, ["25", "65535"], ["0", "65536", "-1", "x", "٣"]),
        (
            FieldForm.ADDRESS,
            ["a@b.example", "a.b+c@d.example"],
            ["a", "@b", "a@", "a b@c", "a@b>", "<a@b>", "a@b,c@d", "é@b", "a@b\r\nBcc: x@y"],
        ),
        (
            FieldForm.HTTPS_URL,
            ["https://h.example/x?y=z"],
            ["http://h.example", "ftp://h", "https://", "https://u:p@h/", "https://h/#x",
             "https://h/ x", "https://h:0/", "https://h:x/", "https://h\\@x/", "https://é/"],
        ),
        (FieldForm.HTTP_URL, ["http://10.0.0.1:81/"], ["javascript:alert(1)", "file:///etc"]),
        (
            FieldForm.HEADERS,
            ["A: b\nX-Token: c d"],
            ["A", "A:", "A b: c", "A: é", "Host: x", "Content-Length: 1", "webhook-id: 1",
             "A: b\na: c", "\n".join(f"H{n}: x" for n in range(21))],
        ),
        (
            FieldForm.SIGNING_KEY,
            ["x" * 24, "whsec_QUJDREVGR0hJSktMTU5PUA=="],
            ["short", "whsec_QUJD", "whsec_?"],
        ),
        (FieldForm.APPRISE_URL, ["tgram://t/c", "ntfys://h/topic"], ["x", "://", "a://b c"]),
    ],
)  # fmt: skip
def test_values(form: FieldForm, good: list[str], bad: list[str]) -> None:
    for each in good:
        assert READERS[form](each) == each
    for each in bad:
        with pytest.raises(ValueError, match=r"."):
            READERS[form](each)


def test_recipients_and_headers_get_one_spelling() -> None:
    assert READERS[FieldForm.ADDRESSES]("a@b.example; c@d.example,a@b.example") == (
        "a@b.example\nc@d.example"
    )
    assert header_items(headers("A:b\n\n X-C :  d: e ")) == {"A": "b", "X-C": "d: e"}


def test_line_ends_are_in_no_field_of_one_line() -> None:
    bad = {**MAIL, "settings": {**MAIL["settings"], "host": "h\r\nx", "username": "a\nb"}}
    found = problems(bad)
    assert found["settings.host"] == "control_characters"
    assert found["settings.username"] == "control_characters"


def test_a_login_needs_tls_and_both_of_its_parts() -> None:
    user = {**MAIL, "settings": {**MAIL["settings"], "username": "u"}}
    assert problems(user) == {"secrets.password": "required"}
    clear = {**user, "secrets": {"password": CANARY}}
    clear["settings"] = {**user["settings"], "security": "none"}
    assert problems(clear) == {"settings.security": "channel.login_in_clear"}


def test_secrets_are_kept_set_and_dropped() -> None:
    stored = StoredSecrets(
        kind=ChannelKind.WEBHOOK, settings=HOOK["settings"], secrets={"secret", "headers"}
    )
    kept = parsed(HOOK, stored)
    assert (kept.secrets, kept.dropped) == ({}, frozenset())
    changed = parsed({**HOOK, "secrets": {"secret": "y" * 30, "headers": None}}, stored)
    assert (changed.secrets, changed.dropped) == ({"secret": "y" * 30}, frozenset({"headers"}))
    assert "y" * 30 not in repr(changed)


def test_a_kept_secret_does_not_go_elsewhere() -> None:
    stored = StoredSecrets(kind=ChannelKind.WEBHOOK, settings=HOOK["settings"], secrets={"headers"})
    moved = {**HOOK, "settings": {"url": "http://evil.example"}}
    assert problems(moved, stored) == {"secrets.headers": "channel.secret_needed"}
    assert parsed({**moved, "secrets": {"headers": None}}, stored).dropped == {"headers"}


def test_required_secrets_cannot_be_dropped_and_kinds_not_changed() -> None:
    stored = StoredSecrets(kind=ChannelKind.SLACK, settings={}, secrets={"url"})
    assert parsed({"name": "chat", "kind": "slack"}, stored).secrets == {}
    assert problems({**BOT, "kind": "teams"}, stored) == {"kind": "channel.kind_changed"}
    assert problems({**BOT, "secrets": {"url": None}}) == {"secrets.url": "required"}


@pytest.mark.parametrize(("kind", "most"), [("dingtalk", 20), ("slack", 60), ("teams", 600)])
def test_a_channel_may_not_send_more_than_its_service_takes(kind: str, most: int) -> None:
    assert parsed({**BOT, "kind": kind, "per_minute": most}).per_minute == most
    assert problems({**BOT, "kind": kind, "per_minute": most + 1}) == {"per_minute": "out_of_range"}


def test_where_it_goes_is_told_without_secrets() -> None:
    bot = {"url": f"https://h.example/{CANARY}?k={CANARY}"}
    assert destination(ChannelKind.SLACK, {}, bot) == "h.example"
    assert destination(ChannelKind.APPRISE, {}, {"url": f"tgram://{CANARY}/1"}) == "tgram"
    assert destination(ChannelKind.WEBHOOK, HOOK["settings"], {}) == "h.example"
    assert destination(ChannelKind.EMAIL, {"recipients": "a@b\nc@d\ne@f"}, {}) == "a@b +2"
    assert destination(ChannelKind.TEAMS, {}, {"url": "https://[x"}) == ""


def test_what_a_channel_lacks() -> None:
    assert missing_fields(ChannelKind.SLACK, {}, {}) == ["url"]
    assert missing_fields(ChannelKind.EMAIL, parsed(MAIL).settings, {}) == []
