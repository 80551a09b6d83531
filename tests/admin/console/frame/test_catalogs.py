"""Every text that people may read exists in every language."""

from __future__ import annotations

import re

import pytest

from tests.support import catalogs

_PLACEHOLDER = re.compile(r"%\((\w+)\)")


@pytest.mark.parametrize("language", catalogs.TRANSLATED)
def test_the_catalogue_has_exactly_the_texts_of_the_code(language: str) -> None:
    stored = catalogs.path_of(language).read_text()

    assert stored == catalogs.as_text(catalogs.updated(language)), (
        "run python -m tests.support.catalogs, then translate what is empty"
    )


@pytest.mark.parametrize("language", catalogs.TRANSLATED)
def test_every_text_is_translated(language: str) -> None:
    assert catalogs.untranslated(catalogs.read(language)) == []


@pytest.mark.parametrize("language", catalogs.TRANSLATED)
def test_translations_use_the_same_placeholders(language: str) -> None:
    wrong = []
    for message in catalogs.read(language):
        ids = message.id if isinstance(message.id, list | tuple) else [message.id]
        texts = message.string if isinstance(message.string, list | tuple) else [message.string]
        if any(set(_PLACEHOLDER.findall(t)) != set(_PLACEHOLDER.findall(ids[-1])) for t in texts):
            wrong.append(ids[0])

    assert [text for text in wrong if text] == []


def test_error_texts_of_all_layers_are_found() -> None:
    found = catalogs.messages()

    assert "This executor already has a job named “%(name)s”." in found  # services
    assert "This is not JSON: line %(line)d, column %(column)d: %(problem)s." in found  # domain
    assert "The request is larger than 1 MiB." in found  # web
    assert ("%(num)s job", "%(num)s jobs") in found  # templates
