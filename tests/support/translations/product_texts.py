"""Texts of the product in the language of a page, for the parts of pages that are made of them."""

from __future__ import annotations

from functools import cache

from babel.messages.catalog import Catalog

from tests.support import catalogs

ENGLISH = "en"  # the texts in the code
SIMPLIFIED = catalogs.SIMPLIFIED  # of the Chinese pages


def in_language(text: str, language: str) -> str:
    """A text of the code as readers see it; in English as long as it is not translated."""
    if language == ENGLISH:
        return text
    message = _catalog(language).get(text)
    return str(message.string) if message is not None and message.string else text


@cache
def _catalog(language: str) -> Catalog:
    return catalogs.read(language)
