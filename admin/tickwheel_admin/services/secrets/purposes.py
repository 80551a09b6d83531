"""What each encrypted value is bound to: copied to another row, it cannot be read."""

from __future__ import annotations

PURPOSE_OF_PROOF_KEY = "proof_key.private"  # of the key that signs proofs


def purpose_of_secret(executor_id: int, name: str) -> str:
    """Of a secret of an executor."""
    return f"secret {executor_id} {name}"


def purpose_of_xxl_token(executor_id: int) -> str:
    """Of the access token of an executor of the protocol `xxl_job`."""
    return f"xxl_executor.token {executor_id}"


def purpose_of_channel(channel_id: int) -> str:
    """Of what a channel of alarms keeps secret: a JSON object of strings."""
    return f"alarm_channel.secrets {channel_id}"
