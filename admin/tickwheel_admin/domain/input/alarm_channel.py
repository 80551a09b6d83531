"""Channels of alarms as people write them: `{"name": "ops", "kind": "slack", "secrets": {…}}`.

`parse_channel` notes every problem before it refuses. Secrets are only ever written: one that is
stored stays when it is not given, and goes with null. No problem repeats anything of a value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tickwheel_admin.domain.alarms.channel import MAX_NAME_CHARS, ChannelKind
from tickwheel_admin.domain.alarms.channel_fields import (
    CHANNEL_KINDS,
    NO_TLS,
    ChannelField,
    FieldForm,
)
from tickwheel_admin.domain.alarms.channel_values import READERS
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.zones import zone_of

CHANNEL_FIELDS = ("name", "kind", "language", "time_zone", "per_minute", "settings", "secrets")
_ON_SEVERAL_LINES = (FieldForm.ADDRESSES, FieldForm.HEADERS)
_MAX_ZONE_CHARS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecrets:
    """What an edit of a channel has to know of it."""

    kind: ChannelKind
    settings: Mapping[str, str]
    secrets: Collection[str]  # names of those that are stored


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelInput:
    """A channel as it shall be."""

    name: str
    kind: ChannelKind
    language: str
    time_zone: str
    per_minute: int  # messages
    settings: Mapping[str, str]  # those that were given, or have a default
    secrets: Mapping[str, str] = field(repr=False)  # to be set; others stay
    dropped: frozenset[str] = frozenset()  # names of secrets to be deleted


def parse_channel(
    raw: object, *, languages: Collection[str], stored: StoredSecrets | None = None
) -> ChannelInput:
    """Read a channel that somebody wrote.

    Args:
        languages: in which messages can be.
        stored: of the channel that is edited; None: it is new.

    Raises:
        InvalidInput: with every problem.
    """
    problems: list[Problem] = []
    fields = Fields(raw, "", problems)
    fields.only(CHANNEL_FIELDS)
    fields.require("kind")
    kind = fields.member("kind", ChannelKind, default=ChannelKind.EMAIL)
    name = fields.text("name", max_chars=MAX_NAME_CHARS, required=True, is_name=True)
    language = fields.choice("language", languages, default=next(iter(languages)))
    time_zone = fields.text("time_zone", max_chars=_MAX_ZONE_CHARS) or "UTC"
    try:
        zone_of(time_zone)
    except ScheduleError as error:
        fields.refuse("time_zone", "timezone.unknown", error.template, **error.params)
    if stored is not None and stored.kind is not kind and fields.has("kind"):
        fields.refuse(
            "kind", "channel.kind_changed", "A channel keeps its kind. Add another one instead."
        )
    spec = CHANNEL_KINDS[kind]
    per_minute = fields.integer(
        "per_minute", low=1, high=spec.most_per_minute, default=spec.per_minute
    )
    settings: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    dropped: frozenset[str] = frozenset()
    if fields.is_object and isinstance(fields.raw.get("kind"), str) and not _has(problems, "kind"):
        settings = _read_settings(fields, spec.fields)
        secrets, dropped = _read_secrets(fields, spec.fields, settings, stored)
        if kind is ChannelKind.EMAIL:
            _check_login(fields, settings, {*secrets, *_kept(stored)} - dropped)
    raise_if_any(problems)
    return ChannelInput(
        name=name,
        kind=kind,
        language=language,
        time_zone=time_zone,
        per_minute=per_minute,
        settings=settings,
        secrets=secrets,
        dropped=dropped,
    )


def missing_fields(
    kind: ChannelKind, settings: Mapping[str, str], secrets: Mapping[str, str]
) -> list[str]:
    """Names of required fields that a channel lacks, as when its secrets were lost."""
    return [
        each.name
        for each in CHANNEL_KINDS[kind].fields
        if each.is_required and not (secrets if each.is_secret else settings).get(each.name)
    ]


def _read_settings(fields: Fields, known: tuple[ChannelField, ...]) -> dict[str, str]:
    mine = [each for each in known if not each.is_secret]
    given = fields.raw.get("settings")
    inside = Fields({} if given is None else given, fields.where("settings"), fields.problems)
    inside.only([each.name for each in mine])
    found = {}
    for each in mine:
        if value := _read(inside, each, is_required=each.is_required):
            found[each.name] = value
    return found


def _read_secrets(
    fields: Fields,
    known: tuple[ChannelField, ...],
    settings: Mapping[str, str],
    stored: StoredSecrets | None,
) -> tuple[dict[str, str], frozenset[str]]:
    mine = [each for each in known if each.is_secret]
    given = fields.raw.get("secrets")
    inside = Fields({} if given is None else given, fields.where("secrets"), fields.problems)
    inside.only([each.name for each in mine])
    kept = _kept(stored)
    moved = stored is not None and any(
        settings.get(each.name, "") != stored.settings.get(each.name, "")
        for each in known
        if each.is_destination
    )
    found, dropped = {}, set()
    for each in mine:
        if each.name in inside.raw and inside.raw[each.name] is None and not each.is_required:
            dropped.add(each.name)
        elif inside.has(each.name) or each.name not in kept:
            if value := _read(inside, each, is_required=each.is_required):
                found[each.name] = value
        elif moved:
            inside.refuse(
                each.name,
                "channel.secret_needed",
                "Messages go to another place now, so enter this again, or remove it.",
            )
    return found, frozenset(dropped)


def _read(inside: Fields, each: ChannelField, *, is_required: bool) -> str:
    if each.form is FieldForm.CHOICE:
        return inside.choice(each.name, each.choices, default=each.default)
    before = len(inside.problems)
    value = inside.text(
        each.name,
        max_chars=each.max_chars,
        required=is_required,
        lines=each.form in _ON_SEVERAL_LINES,
    )
    if not value or len(inside.problems) > before:
        return each.default
    try:
        return READERS[each.form](value)
    except ValueError as error:
        inside.refuse(each.name, f"channel.{each.form}_invalid", str(error))
        return each.default


def _check_login(fields: Fields, settings: Mapping[str, str], secrets: set[str]) -> None:
    has_user, has_password = "username" in settings, "password" in secrets
    if has_password and not has_user:
        fields.refuse(
            "settings.username", "required", "A password needs the user name that it belongs to."
        )
    if has_user and not has_password and not _has(fields.problems, "secrets.password"):
        fields.refuse("secrets.password", "required", "A user name needs its password.")
    if has_user and settings.get("security") == NO_TLS:
        fields.refuse(
            "settings.security",
            "channel.login_in_clear",
            "A password is sent over TLS only: choose starttls or tls, or leave out the user name.",
        )


def _kept(stored: StoredSecrets | None) -> frozenset[str]:
    return frozenset() if stored is None else frozenset(stored.secrets)


def _has(problems: list[Problem], field_name: str) -> bool:
    return any(each.field == field_name for each in problems)
