"""Passwords: what an unknown person's login costs."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from tickwheel_admin.services.users.passwords import Passwords


async def test_an_unknown_person_costs_the_work_of_a_known_one() -> None:
    hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=2, hash_len=24, salt_len=12)
    passwords = Passwords(hasher)
    decoy = passwords._decoy

    assert not hasher.check_needs_rehash(decoy)  # so it has the same parameters
    with pytest.raises(VerifyMismatchError):  # the work was done, the text is a valid hash
        hasher.verify(decoy, "correct horse battery")
    assert not await passwords.verify(None, "correct horse battery")
    assert await passwords.verify(await passwords.hash("x"), "x")
    assert Passwords(hasher)._decoy != decoy
    passwords.close()
