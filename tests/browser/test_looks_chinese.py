"""Every page once more, for readers of Chinese.

By day the texts of all pages are read as the server sends them, and a quarter of the pages that
people open most is looked at in the browser. By night all of them are.
"""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browser.kit.consoles import Console, set_preference
from tests.browser.test_looks import (
    TEXTS_OF_ANOTHER_PAGE,
    THIRDS,
    WEIGHED,
    look_at,
    pages_of,
    third_of,
    untranslated,
)
from tests.browser.test_looks import reader as reader  # a fixture
from tests.support.nightly import IS_NIGHT


@pytest.mark.parametrize("third", THIRDS)
def test_pages_are_translated_accessible_and_in_their_frame(
    reader: Page, context: BrowserContext, looked_at: Console, third: int
) -> None:
    set_preference(context, looked_at, "language", "zh_CN")
    pages = {
        name: path
        for name, path in pages_of(looked_at).items()
        if (IS_NIGHT or name in WEIGHED[::4]) and name != "help"  # documents are in English
    }
    faults = look_at(reader, looked_at, third_of(pages, third), "zh_CN")

    assert faults == {}, json.dumps(faults, indent=1, ensure_ascii=False)
    assert reader.locator("html").get_attribute("lang") == "zh-CN"


def test_every_page_is_translated(
    reader: Page, context: BrowserContext, looked_at: Console
) -> None:
    set_preference(context, looked_at, "language", "zh_CN")
    reader.goto(looked_at.url + "/about")
    faults = {}
    for name, path in pages_of(looked_at).items():
        language, texts = reader.evaluate(TEXTS_OF_ANOTHER_PAGE, path)
        words = untranslated(texts, looked_at)
        if language != "zh-CN" or (words and name != "help"):
            faults[name] = [language, *sorted(words)]

    assert faults == {}, json.dumps(faults, indent=1, ensure_ascii=False)
