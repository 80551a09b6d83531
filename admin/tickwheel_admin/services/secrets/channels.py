"""What a channel of alarms keeps secret: encrypted as one JSON object of strings."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.purposes import purpose_of_channel
from tickwheel_admin.store.alarms.channels import StoredChannel

_values = msgspec.json.Decoder(dict[str, str])


def encrypt_channel_secrets(
    cipher: Cipher, channel_id: int, secrets: Mapping[str, str]
) -> str | None:
    """What is stored of them; None: there are none. Raises Conflict secret_key.missing."""
    if not secrets:
        return None
    text = msgspec.json.encode(dict(secrets)).decode()
    return cipher.encrypt(text, purpose=purpose_of_channel(channel_id))


def open_channel(cipher: Cipher, stored: StoredChannel) -> Channel:
    """The channel as its sender needs it; raises SecretUnreadable."""
    secrets: dict[str, str] = {}
    if stored.secrets is not None:
        text = cipher.decrypt(stored.secrets, purpose=purpose_of_channel(stored.id))
        secrets = _values.decode(text)
    return Channel(
        id=stored.id,
        name=stored.name,
        kind=stored.kind,
        language=stored.language,
        time_zone=stored.time_zone,
        settings=stored.settings,
        secrets=secrets,
    )
