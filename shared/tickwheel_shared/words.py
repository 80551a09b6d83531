"""Texts that are translated where they are shown."""

from __future__ import annotations


class Word(str):
    """A message id among a text's params, such as the name of a weekday: translated as well."""

    __slots__ = ()
