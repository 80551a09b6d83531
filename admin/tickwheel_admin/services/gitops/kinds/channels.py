"""Channels of alarms as documents. What is secret stays as it is stored, or comes from a secret of
an executor that the document names: files hold no secrets, and an export writes none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.channel_fields import CHANNEL_KINDS
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.executors.secret import is_secret_name
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.alarm_channel import (
    CHANNEL_FIELDS,
    ChannelInput,
    StoredSecrets,
    parse_channel,
)
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.alarms import channel_edits as edits
from tickwheel_admin.services.events.transactions import AuditEntry
from tickwheel_admin.services.gitops.kinds.base import ObjectKind, PlanView, PlanWriting
from tickwheel_admin.services.gitops.objects import (
    ObjectChange,
    ObjectDocument,
    ObjectKey,
    ObjectType,
    StoredObject,
    WantedObject,
)
from tickwheel_admin.services.gitops.refusals import changed_meanwhile
from tickwheel_admin.services.secrets.channels import open_channel
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.services.secrets.values import decrypt_secret
from tickwheel_admin.store.alarms import channels as store
from tickwheel_admin.store.alarms.channels import StoredChannel
from tickwheel_admin.store.alarms.rules import lock_alarm_edits
from tickwheel_admin.store.executors.secrets import read_secrets

FIELDS = (*CHANNEL_FIELDS, "enabled")
_REFERENCE = ("executor", "secret")  # fields of what a document says of a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """A channel as a document wants it."""

    said: ChannelInput
    enabled: bool
    secrets: Mapping[str, str] = field(repr=False)  # all that it shall have
    changed: Mapping[str, tuple[str | None, str | None]]  # secrets: where they are, and will be


class ChannelObjects(ObjectKind):
    """Known by their names; seen and written by administrators of the installation."""

    type: ClassVar = ObjectType.CHANNEL
    is_for_administrators: ClassVar = True

    def __init__(self, cipher: Cipher, languages: Collection[str]) -> None:
        self._cipher = cipher
        self._languages = languages

    def ids(
        self, conn: sa.Connection, keys: Collection[ObjectKey], executors: Mapping[str, int]
    ) -> dict[ObjectKey, int]:
        found = store.channels_named(conn, {key.name for key in keys}) if keys else {}
        return {key: found[key.name] for key in keys if key.name in found}

    def stored(self, view: PlanView, object_ids: Collection[int]) -> list[StoredObject]:
        return [_object(each) for each in _channels(view) if each.id in set(object_ids)]

    def all_ids(self, view: PlanView) -> list[int]:
        return [each.id for each in _channels(view)]

    def read(
        self, view: PlanView, document: ObjectDocument, object_id: int, stored: StoredObject | None
    ) -> WantedObject:
        fields = Fields(document.fields, "", [])
        fields.only(FIELDS)
        enabled = fields.boolean("enabled", default=True)
        old: StoredChannel | None = None if stored is None else stored.content
        kept = {} if old is None else self._kept(old)
        named, values = self._named(view, fields)
        raw: dict[str, Any] = {k: v for k, v in document.fields.items() if k != "enabled"}
        raw |= {"name": document.key.name, "secrets": values}
        try:
            said = parse_channel(raw, languages=self._languages, stored=_known(old, kept))
        except InvalidInput as error:
            fields.problems += _with_a_way_out(fields.problems, error.problems)
        raise_if_any(fields.problems)
        secrets = {k: v for k, v in kept.items() if k not in said.dropped} | dict(said.secrets)
        changed = {
            name: ("(stored)" if name in kept else None, named.get(name))
            for name in sorted({*kept, *secrets})
            if kept.get(name) != secrets.get(name)
        }
        wish = _Wish(said=said, enabled=enabled, secrets=secrets, changed=changed)
        wanted = _fields(said, enabled)
        return WantedObject(
            document=document, id=object_id, executor_id=0, fields=wanted, content=wish
        )

    def may_write(self, actor: Actor, executor_id: int) -> bool:
        return actor.may(Permission.ADMINISTER)

    def differences(
        self, stored: StoredObject, wanted: WantedObject
    ) -> Mapping[str, tuple[Any, Any]]:
        secrets = {f"secrets.{k}": v for k, v in wanted.content.changed.items()}
        return {**super().differences(stored, wanted), **secrets}

    def lock(self, writing: PlanWriting, changes: Sequence[ObjectChange]) -> None:
        lock_alarm_edits(writing.conn)

    def write(self, writing: PlanWriting, change: ObjectChange) -> None:
        assert change.wanted is not None  # noqa: S101 - what is deleted does not come here
        wish: _Wish = change.wanted.content
        entry = AuditEntry(writing.conn, writing.take_one("audit"), writing.actor)
        old: StoredChannel | None = None if change.stored is None else change.stored.content
        channel = edits.channel_to_store(
            self._cipher,
            change.object_id,
            wish.said,
            wish.secrets,
            version=1 if old is None else old.version,
            enabled=wish.enabled,
        )
        if old is None:
            edits.create_channel(writing.conn, entry, channel)
            return
        changed = edits.changed_fields(old, channel, secrets=wish.changed.keys())
        try:
            edits.update_channel(writing.conn, entry, channel, old, changed=changed)
        except Conflict as error:
            raise changed_meanwhile(change.key) from error

    def delete(self, writing: PlanWriting, change: ObjectChange) -> None:
        found = store.get_channel(writing.conn, change.object_id)
        assert change.stored is not None  # noqa: S101 - it was there
        if found is None or str(found.version) != change.stored.mark:
            raise changed_meanwhile(change.key)
        entry = AuditEntry(writing.conn, writing.take_one("audit"), writing.actor)
        edits.delete_channel(writing.conn, entry, change.object_id)

    def marks(self, conn: sa.Connection, object_ids: Collection[int]) -> dict[int, str]:
        found = (store.get_channel(conn, each) for each in object_ids)
        return {each.id: str(each.version) for each in found if each is not None}

    # --- secrets -----------------------------------------------------------------------------

    def _kept(self, old: StoredChannel) -> dict[str, str]:
        """What is stored. Where no key reads it, nothing is written over it."""
        try:
            return dict(open_channel(self._cipher, old).secrets)
        except (SecretUnreadable, Conflict):  # Conflict: the key file is broken
            refusal = edits.unreadable()
            raise InvalidInput.one("secrets", refusal.code, refusal.template) from None

    def _named(
        self, view: PlanView, fields: Fields
    ) -> tuple[dict[str, str], dict[str, str | None]]:
        """Of the secrets in the document: how a plan tells of it, and its value; null drops it."""
        raw = fields.raw.get("secrets")
        inside = Fields({} if raw is None else raw, "secrets", fields.problems)
        told: dict[str, str] = {}
        values: dict[str, str | None] = {}
        for name, given in inside.raw.items():
            if given is None:
                values[name] = None
            elif not isinstance(given, Mapping):
                inside.refuse(
                    name,
                    "gitops.secret_in_file",
                    "Files hold no secrets. Leave it out to keep what is stored, or name a secret"
                    " of an executor by the fields “executor” and “secret”.",
                )
            else:
                value = self._value(view, Fields(given, f"secrets.{name}", fields.problems))
                if value is not None:
                    told[name] = f"(secret {given['secret']} of {given['executor']})"
                    values[name] = value
        return told, values

    def _value(self, view: PlanView, reference: Fields) -> str | None:
        """Of a secret that a document names; None: a problem was noted."""
        reference.only(_REFERENCE)
        executor = reference.text("executor", max_chars=200, required=True)
        name = reference.text("secret", max_chars=200, required=True, exact=True)
        if not executor or not name:
            return None
        executor_id = view.executors.get(executor)
        found = (
            read_secrets(view.conn, executor_id, [name])
            if executor_id is not None and is_secret_name(name)
            else []
        )
        if not found:
            reference.refuse(
                "secret",
                "gitops.unknown_secret",
                "There is no secret “%(name)s” of an executor “%(executor)s”. Set it there first.",
                name=name,
                executor=executor,
            )
            return None
        try:
            return decrypt_secret(self._cipher, found[0])
        except (SecretUnreadable, Conflict):
            reference.refuse(
                "secret",
                "gitops.secret_unreadable",
                "This admin has not the key that the secret “%(name)s” was encrypted with.",
                name=name,
            )
            return None


def _channels(view: PlanView) -> list[StoredChannel]:
    if not view.actor.may(Permission.ADMINISTER):
        return []
    return store.list_channels(view.conn, limit=edits.MAX_CHANNELS)


def _object(channel: StoredChannel) -> StoredObject:
    return StoredObject(
        key=ObjectKey(type=ObjectType.CHANNEL, name=channel.name),
        id=channel.id,
        executor_id=0,
        fields=_fields(channel, channel.enabled),
        mark=str(channel.version),
        content=channel,
    )


def _fields(channel: StoredChannel | ChannelInput, enabled: bool) -> dict[str, Any]:
    return {
        "name": channel.name,
        "kind": channel.kind.value,
        "language": channel.language,
        "time_zone": channel.time_zone,
        "per_minute": channel.per_minute,
        "enabled": enabled,
        "settings": dict(channel.settings),
    }


def _known(old: StoredChannel | None, kept: Mapping[str, str]) -> StoredSecrets | None:
    if old is None:
        return None
    return StoredSecrets(kind=old.kind, settings=old.settings, secrets=frozenset(kept))


def _with_a_way_out(noted: Sequence[Problem], found: Sequence[Problem]) -> list[Problem]:
    """What is wrong with a channel, where a secret is missing with what to do about it."""
    secrets = {f"secrets.{name}" for spec in CHANNEL_KINDS.values() for name in spec.secrets}
    told = {".".join(each.field.split(".")[:2]) for each in noted}  # secrets.url.executor
    return [
        replace(
            each,
            code="gitops.channel_secret_missing",
            template="No such secret is stored, and files hold none. Name a secret of an executor"
            " here, by the fields “executor” and “secret”; or enter it in the console or by the"
            " API, after which documents leave it as it is.",
            params={},
        )
        if each.field in secrets and each.code == "required"
        else each
        for each in found
        if each.field not in told
    ]
