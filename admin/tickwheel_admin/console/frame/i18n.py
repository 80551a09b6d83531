"""Texts in the language of whoever reads the answer now being made."""

from __future__ import annotations

from contextvars import ContextVar

from tickwheel_admin.domain.runs.reasons import template_of_message
from tickwheel_admin.web.i18n import ENGLISH, translations

LANGUAGE: ContextVar[str] = ContextVar("language", default=ENGLISH)


def gettext(message: str) -> str:
    """The text in the current language; `message` is the English one."""
    # An empty message id is the catalogue's own header.
    return str(translations(LANGUAGE.get()).ugettext(message)) if message else ""


def ngettext(one: str, many: str, n: int) -> str:
    """The text in the current language, in the plural form for n."""
    return str(translations(LANGUAGE.get()).ungettext(one, many, n))


def message_text(message: str) -> str:
    """What was said of the end of a run, in the current language if an admin said it."""
    template, params = template_of_message(message)
    return gettext(template) % params if params else gettext(template)
