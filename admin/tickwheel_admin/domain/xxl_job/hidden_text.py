"""What stands in place of text whose secrets cannot be found."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tickwheel_shared.secret_mask import SecretMask

_NULL = b"null"


class UnknownSecrets(SecretMask):
    """Hides all of a text: a value may stand anywhere in it.

    Args:
        names: of the secrets whose values are not known.
    """

    __slots__ = ("_note",)

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(())
        self._note = (
            f"[Hidden: the value of {', '.join(sorted(names))} could not be read,"
            " so that it would not have been hidden here.]"
        )

    def hide(self, text: str) -> str:
        """The same note for every text."""
        return self._note if text else text

    def hide_json(self, data: msgspec.Raw, *, limit: int) -> msgspec.Raw:
        """Nothing of it."""
        return msgspec.Raw(_NULL)

    def begun_at(self, text: str) -> int:
        """At its beginning."""
        return 0
