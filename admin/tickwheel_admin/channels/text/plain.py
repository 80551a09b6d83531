"""A letter as plain text: of e-mails, webhooks and the services of Apprise."""

from __future__ import annotations

from collections.abc import Callable

from tickwheel_admin.channels.text.letter import Letter, LetterSection


def plain_text(letter: Letter, *, escape: Callable[[str], str] = str) -> str:
    """The text without its subject.

    Args:
        escape: what every text is passed through, but addresses of pages are not.
    """
    parts = [_section(each, escape) for each in letter.sections]
    if letter.more:
        parts.append(escape(letter.more))
    parts.append(f"{escape(letter.link.label)}: {letter.link.url}")
    return "\n\n".join(parts) + f"\n\n-- \n{escape(letter.footer)}\n"


def _section(section: LetterSection, escape: Callable[[str], str]) -> str:
    lines = [section.title, section.sentence, *section.own_lines]
    lines += [f"{each.label}: {each.text}" for each in section.facts]
    if section.error_line:
        lines.append(f"{section.error_label}: {section.error_line}")
    escaped = [escape(line) for line in lines if line]
    return "\n".join([*escaped, *(f"{escape(each.label)}: {each.url}" for each in section.links)])
