"""A message as people read it: every text is there, translated, cleaned and not yet escaped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tickwheel_admin.channels.text.cleaning import clip
from tickwheel_admin.web.i18n import translate

T = TypeVar("T")

_SHORT_SUBJECT = 100
_SHORT_LINE = 120


class Tone(StrEnum):
    """How a message looks where there are colours."""

    BAD = "bad"
    WARNING = "warning"
    GOOD = "good"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class LetterFact:
    """Something that is known, with its name."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class LetterLink:
    """A page to open; nothing is done by opening it."""

    label: str
    url: str  # absolute, of http or https


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSection:
    """One alarm."""

    tone: Tone
    title: str  # occasion, kind and subject
    sentence: str  # what is the matter
    own_lines: tuple[str, ...]  # the rule's own text
    facts: tuple[LetterFact, ...]
    error_line: str  # "": none is known
    error_label: str
    links: tuple[LetterLink, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A whole message."""

    id: str
    language: str
    subject: str
    tone: Tone
    sections: tuple[LetterSection, ...]
    covered: int  # alarms, also those without a section
    link: LetterLink  # the page that lists all of them
    footer: str

    @property
    def more(self) -> str:
        """How many alarms have no section; "": each has one."""
        left = self.covered - len(self.sections)
        return translate("and %(n)s more", {"n": left}, self.language) if left > 0 else ""


def fitted(
    letter: Letter, render: Callable[[Letter], T], *, size: Callable[[T], int], limit: int
) -> T:
    """As much of a letter as fits, in the shape of some channel.

    Args:
        size: of a shape, in the channel's own unit.
        limit: the largest size that the channel takes.
    """
    whole = render(letter)
    if size(whole) <= limit:
        return whole
    fitting, too_many = 0, len(letter.sections)
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if size(render(_with_sections(letter, middle))) <= limit:
            fitting = middle
        else:
            too_many = middle
    if fitting:
        return render(_with_sections(letter, fitting))
    brief = render(_brief(letter))
    return brief if size(brief) <= limit else render(_without_any_section(letter))


def _with_sections(letter: Letter, count: int) -> Letter:
    return dataclasses.replace(letter, sections=letter.sections[:count])


def _brief(letter: Letter) -> Letter:
    """The first section, with what matters most of it."""
    first = letter.sections[0]
    brief = dataclasses.replace(
        first,
        sentence=clip(first.sentence, _SHORT_LINE),
        error_line=clip(first.error_line, _SHORT_LINE),
        own_lines=(),
        facts=first.facts[:2],
        links=(),
    )
    return dataclasses.replace(letter, sections=(brief,))


def _without_any_section(letter: Letter) -> Letter:
    return dataclasses.replace(letter, subject=clip(letter.subject, _SHORT_SUBJECT), sections=())
