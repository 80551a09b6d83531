"""Secrets are read back by whoever has the key, and by nobody else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable, new_key

OLD, NEW = bytes(range(32)), bytes(range(32, 64))


def test_a_secret_comes_back_and_is_not_seen_in_what_is_stored() -> None:
    cipher = Cipher([NEW])

    stored = cipher.encrypt("s3cret-tøken", purpose="token 1")

    assert cipher.decrypt(stored, purpose="token 1") == "s3cret-tøken"
    assert "s3cret" not in stored
    assert cipher.encrypt("s3cret-tøken", purpose="token 1") != stored


def test_it_cannot_be_moved_to_another_row_or_changed() -> None:
    cipher = Cipher([NEW])
    stored = cipher.encrypt("s3cret", purpose="token 1")

    for changed, purpose in [
        (stored, "token 2"),
        (stored[:-4] + "AAA=", "token 1"),
        (stored[:20], "token 1"),
        ("", "token 1"),
        ("2" + stored[1:], "token 1"),
    ]:
        with pytest.raises(SecretUnreadable):
            cipher.decrypt(changed, purpose=purpose)


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    stored = Cipher([OLD]).encrypt("s3cret", purpose="token 1")
    rotated = Cipher([NEW, OLD])

    assert rotated.decrypt(stored, purpose="token 1") == "s3cret"
    assert not rotated.is_current(stored)
    again = rotated.encrypt("s3cret", purpose="token 1")
    assert rotated.is_current(again)
    with pytest.raises(SecretUnreadable, match="which secret_key does not have"):
        Cipher([NEW]).decrypt(stored, purpose="token 1")


def test_without_a_key_the_way_out_is_said() -> None:
    with pytest.raises(Conflict, match=r"tickwheel secret-key.*TICKWHEEL_SECRET_KEY") as refusal:
        Cipher().encrypt("s3cret", purpose="token 1")

    assert refusal.value.code == "secret_key.missing"


def test_the_embedded_database_gets_a_key_of_its_own_on_first_need(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    cipher = Cipher(key_file=file)
    assert not file.exists()
    before = os.umask(0)
    try:
        stored = cipher.encrypt("s3cret", purpose="token 1")
    finally:
        os.umask(before)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
    assert Cipher(key_file=file).key_ids == cipher.key_ids, "told before it is needed"
    assert Cipher(key_file=file).decrypt(stored, purpose="token 1") == "s3cret"
    assert Cipher([NEW], key_file=file).decrypt(stored, purpose="token 1") == "s3cret"


def test_a_broken_key_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    file.write_text("c2hvcnQ=")

    with pytest.raises(Conflict, match=r"secret\.key"):
        Cipher(key_file=file).encrypt("s3cret", purpose="token 1")


def test_keys_are_random_and_nothing_shows_them() -> None:
    assert new_key() != new_key()
    assert new_key() not in repr(Cipher([NEW]))
