"""Every text that people may read exists in every language."""

from __future__ import annotations

import re

import pytest

from tests.support import catalogs

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


# What is written in Taiwan (not → what a reader there expects), for words that a conversion of
# characters leaves as they are.
ELSEWHERE = {
    "默認": "預設", "服務器": "伺服器", "數據": "資料", "軟件": "軟體", "程序員": "工程師",
    "網絡": "網路", "信息": "訊息", "用戶": "使用者", "登錄": "登入", "賬": "帳", "保存": "儲存",
    "刷新": "重新整理", "字符": "字元", "隊列": "佇列", "線程": "執行緒", "內存": "記憶體",
    "導入": "匯入", "導出": "匯出", "令牌": "權杖", "審計": "稽核", "響應": "回應", "渠道": "管道",
    "當前": "目前", "節假日": "假日", "示例": "範例", "訪問": "存取", "許可權": "權限",
    "自定義": "自訂", "搜索": "搜尋", "緩存": "快取", "異步": "非同步", "接口": "介面",
    "菜單": "選單", "粘貼": "貼上", "支持": "支援", "鏈接": "連結", "添加": "新增",
    "變量": "變數", "字段": "欄位", "對象": "物件", "調用": "呼叫", "模板": "範本",
    "加載": "載入", "全局": "全域", "實時": "即時", "端口": "連接埠", "打印": "列印",
    "屏幕": "螢幕", "鼠標": "滑鼠", "視頻": "影片", "硬件": "硬體", "哈希": "雜湊",
}  # fmt: skip


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


def test_error_texts_of_all_layers_are_found() -> None:
    found = catalogs.messages()

    assert "This executor already has a job named “%(name)s”." in found  # services
    assert "This is not JSON: line %(line)d, column %(column)d: %(problem)s." in found  # domain
    assert "The request is larger than 1 MiB." in found  # web
    assert ("%(num)s job", "%(num)s jobs") in found  # templates
