"""The languages that people read: catalogues, and which one a request wants.

Catalogues are kept as text (locale/*/LC_MESSAGES/messages.po) and compiled in memory at the first
use, which takes some milliseconds; no compiled file can be out of date.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import hdrs, web
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations

from tickwheel_admin.domain.errors import Word

ENGLISH = "en"
CHINESE = "zh_CN"  # in simplified characters
TRADITIONAL_CHINESE = "zh_Hant"  # as written in Taiwan
LANGUAGES: Mapping[str, str] = {
    ENGLISH: "English",
    CHINESE: "简体中文",
    TRADITIONAL_CHINESE: "繁體中文",
}
# As the `lang` attribute and the header Content-Language want them.
LANGUAGE_TAGS: Mapping[str, str] = {
    ENGLISH: "en",
    CHINESE: "zh-CN",
    TRADITIONAL_CHINESE: "zh-Hant",
}
LANGUAGE_COOKIE = "tickwheel_language"

LOCALE_DIRECTORY = Path(__file__).parent.parent / "locale"
DOMAIN = "messages"


@functools.cache
def translations(language: str) -> NullTranslations:
    """The catalogue of a language; the message ids themselves are the English texts."""
    path = LOCALE_DIRECTORY / language / "LC_MESSAGES" / f"{DOMAIN}.po"
    if language not in LANGUAGES or language == ENGLISH or not path.exists():
        return NullTranslations()
    with path.open("rb") as source:
        catalogue = read_po(source, locale=language, domain=DOMAIN)
    compiled = io.BytesIO()
    write_mo(compiled, catalogue)
    compiled.seek(0)
    return Translations(compiled, domain=DOMAIN)


def translate(template: str, params: Mapping[str, Any], language: str) -> str:
    """An English message id in a language, with its %(name)s filled in."""
    catalogue = translations(language)
    # The empty id is where a catalogue keeps its header.
    translated = str(catalogue.ugettext(template)) if template else ""
    words = {
        name: catalogue.ugettext(value) if isinstance(value, Word) and value else value
        for name, value in params.items()
    }
    return translated % words if params else translated


def language_of(request: web.Request) -> str:
    """What the person chose, else what the browser or program prefers."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    return negotiate(request.headers.get(hdrs.ACCEPT_LANGUAGE, ""))


def negotiate(accept_language: str) -> str:
    """The best of our languages for an Accept-Language header."""
    wanted: list[tuple[float, int, str]] = []
    for position, part in enumerate(accept_language[:500].split(",")):
        tag, _, quality = part.strip().partition(";q=")
        try:
            weight = float(quality) if quality else 1.0
        except ValueError:
            continue
        if weight > 0:
            wanted.append((-weight, position, tag.strip().lower()))
    for _weight, _position, tag in sorted(wanted):
        # Every Chinese reader is better served by ours than by English: zh, zh-Hans-SG, zh-yue.
        if tag == "zh" or tag.startswith("zh-"):
            return TRADITIONAL_CHINESE if _is_traditional(tag) else CHINESE
        if tag in (ENGLISH, "*") or tag.startswith("en-"):
            return ENGLISH
    return ENGLISH


def is_chinese(language: str) -> bool:
    """Whether a language is written in Chinese characters, simplified or traditional."""
    return language in (CHINESE, TRADITIONAL_CHINESE)


def _is_traditional(tag: str) -> bool:
    """By the script if the tag names it, else by where it is the usual one; `tag` in lower case."""
    parts = tag.split("-")
    if "hans" in parts or "hant" in parts:
        return "hant" in parts
    return not {"tw", "hk", "mo"}.isdisjoint(parts)
