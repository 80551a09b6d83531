"""Letters in the Markdown that DingTalk and WeCom both read.

Neither documents how to escape markup, so texts are told with letters that look like it.
"""

from __future__ import annotations

from tickwheel_admin.channels.text.cleaning import lookalike
from tickwheel_admin.channels.text.letter import Letter, LetterLink, LetterSection


def markdown(letter: Letter) -> str:
    """The whole letter, with its subject as heading."""
    parts = [f"### {lookalike(letter.subject)}"]
    single = len(letter.sections) == 1 and letter.covered == 1
    parts += [_section(each, with_title=not single) for each in letter.sections]
    if letter.more:
        parts.append(lookalike(letter.more))
    parts.append(_link(letter.link))
    parts.append(f"> {lookalike(letter.footer)}")
    return "\n\n".join(parts)


def _section(section: LetterSection, *, with_title: bool) -> str:
    lines = [f"**{lookalike(section.title)}**"] if with_title else []
    lines.append(lookalike(section.sentence))
    lines += [lookalike(line) for line in section.own_lines if line]
    lines += [f"{lookalike(each.label)}: {lookalike(each.text)}" for each in section.facts]
    if section.error_line:
        lines.append(f"> {lookalike(f'{section.error_label}: {section.error_line}')}")
    if section.links:
        lines.append(" · ".join(_link(each) for each in section.links))
    return "\n\n".join(lines)


def _link(link: LetterLink) -> str:
    return f"[{lookalike(link.label)}]({link.url})"
