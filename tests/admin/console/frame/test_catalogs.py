"""Every text that people may read exists in every language."""

from __future__ import annotations

import re

import pytest
from babel.messages.catalog import Catalog

from tests.support import catalogs
from tests.support.translations.taiwan import ELSEWHERE, in_taiwan

# What `%` makes of a text: a value, a percent sign, or an error where the original has none.
_PLACEHOLDER = re.compile(r"%(?:\(\w+\)|%|)")


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


def test_traditional_chinese_is_as_in_taiwan() -> None:
    """Traditional characters only (those of Big5), and the words of its readers."""
    wrong = []
    for message in catalogs.read("zh_Hant"):
        for text in [message.string] if isinstance(message.string, str) else message.string:
            foreign = [word for word in ELSEWHERE if word in text]
            if not _is_in_big5(text) or foreign or "“" in text:
                wrong.append((text, foreign))
    assert wrong == []


def _is_in_big5(text: str) -> bool:
    try:
        text.encode("cp950")
    except UnicodeEncodeError:
        return False
    return True


def test_an_empty_traditional_text_is_drafted_from_the_simplified_one() -> None:
    simplified, traditional = Catalog(locale="zh_CN"), Catalog(locale="zh_Hant")
    pair = ("%(num)s node", "%(num)s nodes")
    for text, old, new in (
        ("By hand", "手动", "人工"),
        ("Token of “%(name)s” saved", "“%(name)s”的令牌已保存", ""),
        ("Not yet", "", ""),
        (pair, ("%(num)s 个服务器",), ("",)),
    ):
        simplified.add(text, old)
        traditional.add(text, new)

    drafted = catalogs.fill_from_simplified(traditional, simplified)

    assert drafted == ["Token of “%(name)s” saved", str(pair)]
    assert traditional["By hand"].string == "人工"
    assert traditional["Token of “%(name)s” saved"].string == "「%(name)s」的權杖已儲存"
    assert traditional["Not yet"].string == ""
    assert traditional[pair[0]].string == ("%(num)s 個伺服器",)


def test_drafts_are_mostly_what_was_translated_by_hand() -> None:
    by_hand = catalogs.read("zh_Hant")
    same = [
        in_taiwan(message.string) == by_hand[message.id].string
        for message in catalogs.read("zh_CN")
        if message.id and isinstance(message.string, str)
    ]
    assert sum(same) > 0.9 * len(same)


def test_error_texts_of_all_layers_are_found() -> None:
    found = catalogs.messages()

    assert "This executor already has a job named “%(name)s”." in found  # services
    assert "This is not JSON: line %(line)d, column %(column)d: %(problem)s." in found  # domain
    assert "The request is larger than 1 MiB." in found  # web
    assert ("%(num)s job", "%(num)s jobs") in found  # templates
