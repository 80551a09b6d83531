"""Signatures of webhooks, as https://www.standardwebhooks.com specifies them.

HMAC-SHA256 over `id.timestamp.body`, so that ready-made libraries of many languages verify them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from tickwheel_admin.domain.alarms.channel_values import key_bytes


def signed_headers(message_id: str, body: bytes, *, secret: str, now: int) -> dict[str, str]:
    """The headers by which a receiver knows that a body is ours, and of this moment.

    Args:
        secret: "": nothing is signed; id and timestamp are there all the same.
        now: UTC ms.

    Raises:
        ValueError: the base64 of the secret cannot be read.
    """
    timestamp = str(now // 1_000)
    headers = {
        "Idempotency-Key": message_id,
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
    }
    if secret:
        content = f"{message_id}.{timestamp}.".encode() + body
        digest = hmac.new(key_bytes(secret), content, hashlib.sha256).digest()
        headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return headers
