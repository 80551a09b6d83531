"""Access tokens of executors of the protocol `xxl_job`: read back for each call, so encrypted."""

from __future__ import annotations

from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.purposes import purpose_of_xxl_token
from tickwheel_admin.store.xxl_job.executors import StoredXxlExecutor


def encrypt_token(cipher: Cipher, executor_id: int, token: str) -> str:
    """What is stored of an access token; raises Conflict secret_key.missing."""
    return cipher.encrypt(token, purpose=purpose_of_xxl_token(executor_id))


def decrypt_token(cipher: Cipher, stored: StoredXxlExecutor) -> str:
    """The access token; raises SecretUnreadable."""
    return cipher.decrypt(stored.token, purpose=purpose_of_xxl_token(stored.executor_id))
