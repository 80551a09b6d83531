"""Texts in the reader's language: catalogs, the choice of a language, translation.

Message ids are the English texts. Catalogs are the `.po` files in `tickwheel_admin/locale`, compiled
in memory when a language is first asked for; `python -m tests.support.catalogs` keeps them complete.
"""

from __future__ import annotations

import gettext as standard
import io
from collections.abc import Mapping
from contextvars import ContextVar
from functools import lru_cache
from importlib.resources import files
from typing import Any

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "zh_CN": "简体中文"}  # by their own names, as menus show them
HTML_LANG = {ENGLISH: "en", "zh_CN": "zh-CN"}

LANGUAGE: ContextVar[str] = ContextVar("language", default=ENGLISH)
"""The language of whoever reads the answer now being made."""


def gettext(message: str) -> str:
    """The text in the current language."""
    return _catalog(LANGUAGE.get()).gettext(message) if message else ""


def ngettext(one: str, many: str, n: int) -> str:
    """The text in the current language, in the plural form for n."""
    return _catalog(LANGUAGE.get()).ngettext(one, many, n)


def translate(template: str, params: Mapping[str, Any], language: str) -> str:
    """A message template, such as an error's, in a language and filled in."""
    text = _catalog(language).gettext(template) if template else ""
    return text % params if params else text


def choose_language(cookie: str | None, accept_language: str | None) -> str:
    """The language for a request: what the person chose, else what the browser prefers."""
    if cookie in LANGUAGES:
        return cookie
    ranked = []
    for position, part in enumerate((accept_language or "")[:500].split(",")):
        tag, _, quality = part.partition(";")
        try:
            weight = float(quality.strip().removeprefix("q=")) if quality else 1.0
        except ValueError:
            continue
        ranked.append((-weight, position, tag.strip().lower()))
    for weight, _, tag in sorted(ranked):
        if weight == 0:
            continue
        # Chinese is written in more ways than one; simplified is what there is.
        if tag == "zh" or tag.startswith("zh-"):
            return "zh_CN"
        if tag == "en" or tag.startswith("en-"):
            return ENGLISH
    return ENGLISH


@lru_cache
def _catalog(language: str) -> standard.NullTranslations:
    source = files("tickwheel_admin") / "locale" / language / "LC_MESSAGES" / "messages.po"
    if language not in LANGUAGES or not source.is_file():
        return standard.NullTranslations()
    with source.open("rb") as opened:
        catalog = read_po(opened, locale=language)
    compiled = io.BytesIO()
    write_mo(compiled, catalog)
    compiled.seek(0)
    return standard.GNUTranslations(compiled)
