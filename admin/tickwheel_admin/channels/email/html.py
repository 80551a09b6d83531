"""A letter as HTML for mail programs: no script, no style sheet, nothing loaded from anywhere."""

from __future__ import annotations

from html import escape

from tickwheel_admin.channels.text.letter import Letter, LetterLink, LetterSection, Tone
from tickwheel_admin.web.i18n import LANGUAGE_TAGS

_COLOURS = {
    Tone.BAD: "#b42318",
    Tone.WARNING: "#b54708",
    Tone.GOOD: "#067647",
    Tone.NEUTRAL: "#175cd3",
}
_FONT = "font-family:system-ui,-apple-system,'Segoe UI',sans-serif;font-size:14px;line-height:1.5"
_ERROR = "font-family:monospace;background:#f4f4f5;padding:8px;white-space:pre-wrap"


def html_page(letter: Letter) -> str:
    """A whole document."""
    parts = [_section(each) for each in letter.sections]
    if letter.more:
        parts.append(_paragraph(escape(letter.more)))
    parts.append(_paragraph(_link(letter.link)))
    parts.append(_paragraph(f'<span style="color:#71717a">{escape(letter.footer)}</span>'))
    language = LANGUAGE_TAGS[letter.language]
    return (
        f'<!DOCTYPE html>\n<html lang="{escape(language)}"><head><meta charset="utf-8">'
        f'<title>{escape(letter.subject)}</title></head>\n<body style="{escape(_FONT)}">\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _section(section: LetterSection) -> str:
    title = f'<strong style="color:{_COLOURS[section.tone]}">{escape(section.title)}</strong>'
    parts = [_paragraph(f"{title}<br>{escape(section.sentence)}")]
    if section.own_lines:
        parts.append(_paragraph("<br>".join(escape(line) for line in section.own_lines)))
    if section.facts:
        rows = "".join(
            f'<tr><td style="padding-right:12px;color:#71717a">{escape(each.label)}</td>'
            f'<td dir="auto">{escape(each.text)}</td></tr>'
            for each in section.facts
        )
        parts.append(f"<table>{rows}</table>")
    if section.error_line:
        parts.append(
            _paragraph(escape(section.error_label))
            + f'\n<div dir="auto" style="{_ERROR}">{escape(section.error_line)}</div>'
        )
    if section.links:
        parts.append(_paragraph(" · ".join(_link(each) for each in section.links)))
    return "\n".join(parts) + '\n<hr style="border:0;border-top:1px solid #e4e4e7">'


def _paragraph(inside: str) -> str:
    return f'<p dir="auto">{inside}</p>'


def _link(link: LetterLink) -> str:
    return f'<a href="{escape(link.url)}">{escape(link.label)}</a>'
