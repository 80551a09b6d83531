"""Every page once more, for readers of Chinese."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browser.kit.consoles import Console, set_preference
from tests.browser.test_looks import THIRDS, look_at
from tests.browser.test_looks import reader as reader  # a fixture


@pytest.mark.parametrize("third", THIRDS)
def test_every_page_is_translated_accessible_and_in_its_frame(
    reader: Page, context: BrowserContext, looked_at: Console, third: int
) -> None:
    set_preference(context, looked_at, "language", "zh_CN")
    faults = look_at(reader, looked_at, "zh_CN", third)

    assert faults == {}, json.dumps(faults, indent=1, ensure_ascii=False)
    assert reader.locator("html").get_attribute("lang") == "zh-CN"
