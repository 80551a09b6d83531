"""Names that people can see and tell apart: one form of each text, and nothing invisible in it.

A name is kept in Unicode's composed form (NFC), with plain spaces only. Refused are characters that
show nothing: controls, formats, private and unassigned ones, line ends, whatever Unicode says may
be ignored, and letters that are blank. Three scripts need some of them, and have them where they
belong: joiners and the choice of a look within emoji; joiners after a virama, as Indic scripts
write; the non-joiner between Arabic letters, as Persian writes. Flags of tag letters are refused.
"""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))
# Of other categories, but ignorable by Unicode's Default_Ignorable_Code_Point, or blank.
_IGNORED = frozenset(
    (
        *map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F)),
        *map(chr, (0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159)),
        *map(chr, range(0xFE00, 0xFE10)),  # variation selectors
        *map(chr, range(0xE0100, 0xE01F0)),
    )
)
_NON_JOINER, _JOINER = "\u200c", "\u200d"
_TEXT_LOOK, _EMOJI_LOOK = "\ufe0e", "\ufe0f"
_KEYCAP = "\u20e3"
_VIRAMA = 9  # canonical combining class


def normal_name(text: str) -> str:
    """The one form in which a name is kept: composed, with plain spaces, none around it."""
    if text.isascii():
        return text.strip()
    spaced = "".join(" " if unicodedata.category(char) == "Zs" else char for char in text)
    return unicodedata.normalize("NFC", spaced).strip()


def unseen_character(text: str) -> str | None:
    """The first character that nobody would see, such as "U+200B ZERO WIDTH SPACE"; None: none."""
    if text.isascii() and text.isprintable():
        return None
    for at, char in enumerate(text):
        is_unseen = unicodedata.category(char) in _UNSEEN or char in _IGNORED
        if is_unseen and not _belongs(text, at):
            return f"U+{ord(char):04X} {unicodedata.name(char, '')}".rstrip()
    return None


def _belongs(text: str, at: int) -> bool:
    """Whether a script needs this invisible character here."""
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if not before:
        return False
    match text[at]:
        case "\ufe0e" | "\ufe0f":
            return _is_symbol(before) or (before in "#*0123456789" and after == _KEYCAP)
        case "\u200d" if after and _is_symbol(after):
            return _is_symbol(before) or before == _EMOJI_LOOK
        case "\u200c" if after and unicodedata.combining(before) != _VIRAMA:
            return _is_arabic(before) and _is_arabic(after)
        case "\u200c" | "\u200d":
            return bool(after) and unicodedata.combining(before) == _VIRAMA
    return False


def _is_symbol(char: str) -> bool:
    """Emoji and their skin tones; blank braille is one of them, and refused by itself."""
    return unicodedata.category(char) in ("So", "Sm", "Sk")


def _is_arabic(char: str) -> bool:
    return unicodedata.name(char, "").startswith("ARABIC LETTER")
