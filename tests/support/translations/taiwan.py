"""Simplified Chinese texts in the characters and words of Taiwan, as drafts of zh_Hant.

OpenCC converts characters and common words, and WORDS what it leaves or says otherwise than the
catalogue does. The list was made from the texts that were there in November 2026: 95 of 100 come
out as they are, 75 without it. New texts may need new words.
"""

from __future__ import annotations

import re
from functools import cache

from opencc import OpenCC

# Not written in Taiwan → what a reader there expects. A test refuses the former in the catalogue.
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
# Right in some texts, or a matter of taste: what the catalogue says.
_HOUSE_WORDS = {
    "“": "「", "”": "」", "運行": "執行", "聲明瞭": "宣告了", "列表": "清單", "密文": "機密",
    "表示式": "運算式", "匹配": "相符", "補數": "補跑", "處理器": "處理常式", "通過": "透過",
    "吊銷": "撤銷", "會話": "工作階段", "配置": "設定", "生成": "產生", "引數": "參數",
    "應用": "套用", "應用程式": "應用程式", "回滾": "復原", "免打擾": "勿擾", "下劃線": "底線",
    "事務": "交易", "返回": "傳回", "集成": "整合", "普通": "一般", "宏": "巨集", "步長": "間隔值",
    "工作流": "工作流程", "工作流程": "工作流程", "天后": "天後", "簽名": "簽章", "斷聯": "斷線",
    "語句": "陳述式", "根據": "依", "丟失": "遺失", "文本": "文字", "請求頭": "請求標頭",
    "請求體": "請求本文", "埠": "連接埠", "執行併": "執行並", "新建": "新增", "轉義": "逸出",
    "釋出": "發布", "夏令時": "日光節約時間", "後臺": "背景", "證書": "憑證", "許可證": "授權條款",
    "周": "週", "周圍": "周圍", "周邊": "周邊", "視為通過": "視為通過", "已通過": "已通過",
}  # fmt: skip
WORDS = ELSEWHERE | _HOUSE_WORDS
_LONGEST_FIRST = re.compile("|".join(sorted(WORDS, key=len, reverse=True)))


def in_taiwan(simplified: str) -> str:
    """The text as the catalogue would probably have it; somebody should read it."""
    converted = _converter().convert(simplified)
    return _LONGEST_FIRST.sub(lambda found: WORDS[found[0]], converted)


@cache
def _converter() -> OpenCC:
    return OpenCC("s2twp")
