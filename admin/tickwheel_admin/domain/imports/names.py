"""Foreign texts as names and in sentences: nothing in them that nobody sees."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.input.job import MAX_NAME_CHARS
from tickwheel_admin.domain.names import normal_name, unseen_character

_SHOWN = 60  # characters of a foreign text in a sentence


def cleaned(text: str) -> str:
    """A text as a name; white space becomes a space, what nobody sees goes."""
    name = normal_name(text)
    if is_clean(name) and unseen_character(name) is None:
        return name
    visible: Iterable[str] = (
        " " if char in "\t\r\n" else char if _is_visible(char) else "" for char in name
    )
    return normal_name("".join(visible))


def shortened(text: str, limit: int = _SHOWN) -> str:
    """A text as it stands in a sentence."""
    text = cleaned(text)
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def unique_name(name: str, taken: Collection[str], *, mark: object) -> str:
    """The name of a job, with a mark behind it when it is taken."""
    if name not in taken:
        return name
    suffix = f" ({mark})"
    return name[: MAX_NAME_CHARS - len(suffix)].rstrip() + suffix


def _is_visible(char: str) -> bool:
    return is_clean(char) and unseen_character(char) is None
