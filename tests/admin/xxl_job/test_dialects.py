"""The wire of XXL-JOB: recordings of real clients from both ends, and what others are known for."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.admin.xxl_job.recordings import Exchange, exchanges
from tickwheel_admin.xxl_job.dialects import (
    MAX_CALLBACKS,
    MAX_CALLBACKS_BYTES,
    MAX_REGISTRY_BYTES,
    MAX_RUN,
    BadAnswer,
    BadRequest,
    Call,
    Callback,
    Dialect,
    LogId,
    Meaning,
    Registry,
    RunCall,
    answer,
    beat,
    headers,
    idle_beat,
    kill,
    log,
    log_id,
    meaning,
    read_answer,
    read_callbacks,
    read_log,
    read_log_id,
    read_log_prefix,
    read_registry,
    run,
    wire_job_id,
)

TO_EXECUTOR = [one for one in exchanges(to_executor=True) if one.status is not None]
TO_ADMIN = list(exchanges(to_executor=False))

# How the refusals that were recorded begin, and what they mean to us.
REFUSALS = {
    "Task kill err": Meaning.OTHER,
    "Task is busy": Meaning.BUSY,
    "There are tasks running": Meaning.BUSY,
    "Task not registered": Meaning.HANDLER_UNKNOWN,
    "job thread is running": Meaning.BUSY,
    "block strategy effect": Meaning.BUSY,
    "The same job [RunData(": Meaning.BUSY,
    "job 7 is running.": Meaning.BUSY,
    "job handler [noSuchJobHandler] not found.": Meaning.HANDLER_UNKNOWN,
    "handler noSuchJobHandler not found.": Meaning.HANDLER_UNKNOWN,
    "The access token is wrong.": Meaning.TOKEN_WRONG,
    "invalid request, accessToken or appname": Meaning.TOKEN_WRONG,
    "invalid request, uri-mapping(": Meaning.WRONG_PATH,
    "invalid request, HttpMethod not support.": Meaning.OTHER,
    "repeate trigger job": Meaning.REPEATED,
    "repeat trigger job": Meaning.REPEATED,
    "glueType[NONSENSE] is not valid.": Meaning.GLUE_UNSUPPORTED,
    "request error:java.lang.NullPointerException": Meaning.OTHER,
    "request error:com.google.gson.JsonSyntaxException: java.io.EOF": Meaning.OTHER,
}


def _name(one: Exchange) -> str:
    return one.source


# Our calls


def _our_call(one: Exchange) -> Call | None:
    """What we send where the real admin sent this; None: it was sent by hand."""
    if one.is_probe:
        return None
    said: dict[str, Any] = json.loads(one.body or b'""') or {}
    match one.path:
        case "/beat":
            return beat(one.dialect)
        case "/idleBeat":
            return idle_beat(said["jobId"])
        case "/kill":
            return kill(said["jobId"])
        case "/log":
            at = said["logDateTime" if one.dialect is Dialect.C else "logDateTim"]
            return log(one.dialect, said["logId"], at, said["fromLineNum"])
        case "/run" | "/trigger":
            return run(
                one.dialect,
                RunCall(
                    job_id=said["jobId"],
                    handler=said["executorHandler"],
                    param=said["executorParams"],
                    timeout_s=said["executorTimeout"],
                    log_id=said["logId"],
                    time_ms=said["logDateTime"],
                    index=said["broadcastIndex"],
                    total=said["broadcastTotal"],
                    glue_type=said["glueType"],
                    glue_source=said["glueSource"],
                    glue_updated_ms=said["glueUpdatetime"],
                ),
            )
    raise AssertionError(one.path)


def test_the_recordings_hold_each_dialect_and_each_call() -> None:
    seen = {(one.dialect, one.path) for one in TO_EXECUTOR if not one.is_probe}
    for dialect in Dialect:
        start = "/trigger" if dialect is Dialect.C else "/run"
        for path in ("/beat", "/idleBeat", start, "/kill", "/log"):
            assert (dialect, path) in seen


@pytest.mark.parametrize("one", TO_EXECUTOR, ids=_name)
def test_we_say_what_the_real_admin_says(one: Exchange) -> None:
    call = _our_call(one)
    if call is None:
        return
    assert call.path == one.path
    ours, theirs = json.loads(call.body), json.loads(one.body or b'""') or {}
    if "executorBlockStrategy" in theirs:
        # Blocking is decided by us: no executor is to queue, or to end a run for another.
        theirs["executorBlockStrategy"] = "DISCARD_LATER"
    assert ours == theirs


@pytest.mark.parametrize("one", TO_EXECUTOR, ids=_name)
def test_our_headers_are_those_of_the_real_admin(one: Exchange) -> None:
    theirs = {
        name: value
        for name, value in one.headers.items()
        if name.startswith("xxl-job-") or name == "content-type"
    }
    ours = headers(one.dialect, "default_token", "bench")
    if not one.is_probe:
        assert {name.lower(): value for name, value in ours.items()} == theirs


def test_until_the_dialect_is_known_what_each_asks_for_is_sent() -> None:
    found = headers(None, "secret", "billing")
    assert found["XXL-JOB-ACCESS-TOKEN"] == "secret"
    assert found["XXL-JOB-APPNAME"] == "billing"
    said = json.loads(log(None, 5, 1700, 1).body)
    assert said == {"logId": 5, "fromLineNum": 1, "logDateTim": 1700, "logDateTime": 1700}
    assert "XXL-JOB-ACCESS-TOKEN" not in headers(Dialect.A, "", "billing")


# Their answers


@pytest.mark.parametrize("one", TO_EXECUTOR, ids=_name)
def test_each_recorded_answer_is_understood(one: Exchange) -> None:
    found = read_answer(one.status or 0, one.answer)
    if found.code == 200:
        assert meaning(found) is Meaning.OK
        assert (found.log is not None) == (one.path == "/log")
        return
    kinds = {kind for text, kind in REFUSALS.items() if found.message.startswith(text)}
    assert kinds == {meaning(found)}


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("no matched jobHandler(demo)", Meaning.HANDLER_UNKNOWN),
        ("No matched jobHandler: demo", Meaning.HANDLER_UNKNOWN),
        ("bean job handler not found", Meaning.HANDLER_UNKNOWN),
        ("There is already have a same job is running, jobId:3", Meaning.BUSY),
        ("busy", Meaning.BUSY),
        ("the access token is wrong.", Meaning.TOKEN_WRONG),
        ("Access token incorrect.", Meaning.TOKEN_WRONG),
        ("java.lang.IllegalStateException: Expected BEGIN_OBJECT but was STRING", Meaning.SHAPE),
        (
            (
                "request error:com.google.gson.JsonSyntaxException: java.lang.IllegalStateE"
                "xception: Expected BEGIN_ARRAY but was BEGIN_OBJECT at line 1 column 2 path $"
            ),
            Meaning.SHAPE,
        ),
        ("glue type not supported", Meaning.GLUE_UNSUPPORTED),
        ("not yet support, jobId(4)", Meaning.OTHER),
        ("", Meaning.OTHER),
        # What stands in parameters says nothing.
        ("failed: job handler [x] not found.", Meaning.OTHER),
        ("The same job [RunData(p='Expected BEGIN_')] … has been discarded.", Meaning.BUSY),
    ],
)
def test_refusals_of_other_clients(message: str, kind: Meaning) -> None:
    body = json.dumps({"code": 500, "msg": message}).encode()
    assert meaning(read_answer(200, body)) is kind


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b'{"code":200}', 200, ""),
        (b'{"code":"200","msg":null}', 200, ""),
        (b'{"code":200.0,"msg":"Success","unknown":[{}],"success":true}', 200, "Success"),
        (b'{"code":200,"msg":"Success","data":"killed already"}', 200, "killed already"),
        (b'{"code":200,"content":"killed already"}', 200, "killed already"),
        (b'{"code":500,"content":"why"}', 500, "why"),
        (b'{"code":500,"msg":"a \\u003cb\\u003e \\u0026 \\u003d"}', 500, "a <b> & ="),
        (b'\xef\xbb\xbf{"code":500,"msg":"\xff \\ud83d cut"}', 500, "\ufffd \ufffd cut"),
        (b'{"code":500,"msg":"\\\\ud83d \\ud83d\\ude00"}', 500, "\\ud83d \U0001f600"),
        (b'{"code":500,"msg":"a\\u0000b"}', 500, "a\ufffdb"),
        (b'[{"logId":1,"executeResult":{"code":500,"msg":"params err"}}]', 500, "params err"),
    ],
)
def test_answers_are_read_forgivingly(body: bytes, code: int, message: str) -> None:
    found = read_answer(200, body)
    assert (found.code, found.message) == (code, message)


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"", "empty"),
        (200, b" \r\n", "empty"),
        (200, b"<html>", "no JSON"),
        (200, b'{"code":200', "no JSON"),
        (200, b"[" * 100_000, "no JSON"),
        (200, b"\x1f\x8b\x08\x00", "no JSON"),
        (200, b"[]", "no JSON object"),
        (200, b'"ok"', "no JSON object"),
        (200, b'[["code"]]', "no JSON object"),
        (200, b"{}", "no code"),
        (200, b'{"code":true}', "no code"),
        (200, b'{"code":"2e2"}', "no code"),
        (200, b'{"code":"' + b"9" * 5000 + b'"}', "no code"),
        (302, b'{"code":200}', "302"),
        (500, b'{"code":200}', "500"),
        (100, b"", "100"),
    ],
)
def test_what_is_no_answer_says_nothing_of_what_was_done(
    status: int, body: bytes, reason: str
) -> None:
    with pytest.raises(BadAnswer, match=reason):
        read_answer(status, body)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, Meaning.WRONG_PATH),
        (405, Meaning.WRONG_PATH),
        (401, Meaning.TOKEN_WRONG),
        (403, Meaning.TOKEN_WRONG),
    ],
)
def test_servers_that_a_client_is_mounted_in_answer_by_status(status: int, kind: Meaning) -> None:
    assert meaning(read_answer(status, b"404: Not Found")) is kind


def test_a_long_message_is_cut() -> None:
    body = json.dumps({"code": 500, "msg": "x" * 100_000}).encode()
    assert len(read_answer(200, body).message) == 4000


# Logs


@pytest.mark.parametrize(
    "one", [one for one in TO_EXECUTOR if one.path == "/log" and not one.is_probe], ids=_name
)
def test_recorded_logs_are_read_line_by_line(one: Exchange) -> None:
    asked = json.loads(one.body)["fromLineNum"]
    page = read_log(200, one.answer, from_line=asked)
    assert page.from_line == asked
    assert page.to_line == asked - 1 + len(page.content.splitlines())
    assert page.missing == ("file is gone" in one.step)
    if page.missing:
        assert page.content == ""


@pytest.mark.parametrize(
    "one", [one for one in TO_EXECUTOR if one.path == "/log" and one.is_probe], ids=_name
)
def test_only_a_log_that_is_not_there_is_missing(one: Exchange) -> None:
    page = read_log(200, one.answer, from_line=json.loads(one.body)["fromLineNum"])
    assert page.missing == ("unknown run" in one.step)


def _page(
    content: str | None, *, asked: int = 1, first: int = 1, last: int = 0, **more: Any
) -> Any:
    found = {"fromLineNum": first, "toLineNum": last, "logContent": content, **more}
    body = json.dumps({"code": 200, "content": found}).encode()
    page = read_log(200, body, from_line=asked)
    return page.from_line, page.to_line, page.content


def test_lines_are_counted_again_where_a_client_miscounts() -> None:
    assert _page("a\nb\n", last=2) == (1, 2, "a\nb\n")
    assert _page("a\nb", last=2) == (1, 2, "a\nb")
    # Node begins each page with a line feed, and has no isEnd.
    assert _page("\na\nb", first=3, last=4, asked=3) == (3, 4, "a\nb")
    assert _page("\n\na\n", first=3, last=5, asked=3) == (3, 5, "\n\na\n")
    # Beyond the end: pyxxl, Java 2.4 and Java 3.4.
    for last in (6, 4, 0):
        assert _page("", first=6, last=last, asked=6) == (6, 5, "")
    # pyxxl with Redis gives the last line that might have been.
    assert _page("a\nb\n", last=1000) == (1, 2, "a\nb\n")
    # What the executor counts as one line stays one for its next page.
    assert _page("a\nb\nc\n", last=2) == (1, 2, "a\nb\nc\n")
    assert _page(None, last=0) == (1, 0, "")
    assert _page("a", first=-5, last=-9) == (1, 1, "a")


def test_lines_that_were_read_before_are_left_out() -> None:
    assert _page("a\nb\nc\nd\n", last=4, asked=3) == (3, 4, "c\nd\n")
    assert _page("a\nb\n", last=2, asked=3) == (3, 2, "")
    assert _page("a\nb\n", last=2, asked=9) == (9, 8, "")


@pytest.mark.parametrize(
    "body",
    [
        (
            b'{"code":200,"content":{"fromLineNum":1,"toLineNum":0,"isEnd":true,'
            b'"logContent":"readLog fail, logFile not exists"}}'
        ),
        (
            b'{"code":200,"content":{"fromLineNum":1,"toLineNum":0,"isEnd":true,'
            b'"logContent":"readLog fail, logFile not found"}}'
        ),
        (
            b'{"code":200,"content":{"fromLineNum":1,"toLineNum":1,"isEnd":false,'
            b'"logContent":"No such logid logs."}}'
        ),
        b'{"code":500,"msg":"Log not found, logId: 65536"}',
    ],
)
def test_each_client_says_in_its_way_that_there_is_no_log(body: bytes) -> None:
    page = read_log(200, body, from_line=1)
    assert page.missing
    assert page.is_end
    assert (page.from_line, page.to_line, page.content) == (1, 0, "")


@pytest.mark.parametrize(
    "content",
    [
        "",  # a file without a line is a file
        "12:00 readLog fail, logFile not exists\n",
        "readLog fail, logFile not exists\n",  # a job may print anything, with a line feed
        "这是日志默认返回,说明没有设置LogHandler",  # Go without a handler says nothing of the run
    ],
)
def test_only_certain_words_say_that_there_is_no_log(content: str) -> None:
    body = json.dumps({"code": 200, "content": {"toLineNum": 2, "logContent": content}}).encode()
    assert not read_log(200, body, from_line=1).missing


def test_a_refusal_is_no_log() -> None:
    with pytest.raises(BadAnswer, match="token"):
        read_log(200, b'{"code":500,"msg":"The access token is wrong."}', from_line=1)
    with pytest.raises(BadAnswer):
        read_log(200, b'{"code":200}', from_line=1)


def test_a_line_that_is_answered_whatever_is_asked_for_is_read_once() -> None:
    def read(line: int) -> int:
        content = {
            "fromLineNum": line, "toLineNum": 2, "logContent": "no log handler", "isEnd": True,
        }  # fmt: skip
        body = json.dumps({"code": 200, "content": content}).encode()
        return read_log(200, body, from_line=line).to_line

    assert read(1) == 1
    assert read(2) == 2  # as it says itself
    assert [read(line) for line in (3, 4, 1000)] == [2, 3, 999]


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("key", ["content", "data"])
def test_an_answer_that_was_cut_anywhere_gives_its_whole_lines(key: str, ascii_only: bool) -> None:
    text = 'one\ntwo 中文 "q" \\ \U0001f600\n\nfour\t<b>\n'
    body = json.dumps(
        {"code": 200, key: {"fromLineNum": 7, "toLineNum": 10, "logContent": text}},
        ensure_ascii=ascii_only,
    ).encode()
    begin = body.index(b'logContent": "') + len(b'logContent": "')
    for cut in range(len(body) + 1):
        if cut < begin:
            with pytest.raises(BadAnswer):
                read_log_prefix(body[:cut])
            continue
        page = read_log_prefix(body[:cut])
        assert text.startswith(page.content)
        assert not page.missing
        whole = page.content.count("\n")
        if whole:
            assert page.content.endswith("\n")
        assert (page.from_line, page.to_line) == (7, 7 + max(whole, 1) - 1)
    assert page.content == text


def test_one_endless_line_is_given_as_far_as_it_goes_and_passed() -> None:
    body = b'{"code":200,"content":{"fromLineNum":3,"toLineNum":3,"logContent":"' + b"x" * 1000
    page = read_log(200, body, from_line=3, truncated=True)
    assert (page.from_line, page.to_line, page.content) == (3, 3, "x" * 1000)


def test_a_cut_page_is_read_in_linear_time() -> None:
    began = time.process_time()
    for unit in (b"\\n", b"\\u4e2d", b"a\\\\", b"\\", b"\xff"):
        body = b'{"code":200,"content":{"logContent":"' + unit * (4_000_000 // len(unit))
        read_log(200, body, from_line=9, truncated=True)
    assert time.process_time() - began < 10  # 20 MB in all: a second at most


def test_a_cut_answer_without_a_log_is_none() -> None:
    for body in (b"", b"\x00" * 1000, b'{"code":500,"msg":"\\"logContent\\":\\"x'):
        with pytest.raises(BadAnswer):
            read_log(200, body, from_line=1, truncated=True)
    with pytest.raises(BadAnswer, match="302"):
        read_log(302, b'"logContent":"x\\n', from_line=1, truncated=True)


# What executors send


@pytest.mark.parametrize("one", TO_ADMIN, ids=_name)
def test_what_real_executors_send_is_understood(one: Exchange) -> None:
    if one.is_probe:
        return
    what = one.path.rpartition("/")[2]
    if what == "callback":
        (first, *_) = found = read_callbacks(one.body)
        said = json.loads(one.body)
        elements = said["callbackList"] if isinstance(said, dict) else said
        assert [each["logId"] for each in elements] == [each.log_id for each in found]
        assert all(each.code in (200, 500, 502) for each in found)
        assert first.time_ms in (
            elements[0].get("logDateTim"),
            elements[0].get("logDateTime"),
        )
    else:
        assert what in ("registry", "registryRemove")
        assert read_registry(one.body) == Registry(
            group="EXECUTOR",
            app_name="bench",
            address=json.loads(one.body)["registryValue"],
        )


@pytest.mark.parametrize("one", [one for one in TO_ADMIN if one.is_probe], ids=_name)
def test_what_was_sent_by_hand_is_read_or_refused_with_a_reason(one: Exchange) -> None:
    read = {"callback": read_callbacks, "registry": read_registry}.get(
        one.path.rpartition("/")[2].removesuffix("Remove")
    )
    if read is None:
        return
    try:
        read(one.body)
    except BadRequest as error:
        where, _, why = str(error).partition(": ")
        assert where
        assert why


@pytest.mark.parametrize(
    "body",
    [
        b'[{"logId":65536,"logDateTim":17,"handleCode":200,"handleMsg":"done"}]',
        b'[{"logId":"65536","logDateTim":"17","handleCode":"200","handleMsg":"done","x":[]}]',
        b'{"callbackList":[{"logId":65536,"logDateTime":17,"handleCode":200,"handleMsg":"done"}]}',
        b'[{"logId":65536,"logDateTim":17,"executeResult":{"code":200,"msg":"done"}}]',
        (
            b'[{"logId":65536,"logDateTim":17,"executeResult":{"code":1,"msg":"x"},'
            b'"handleCode":200,"handleMsg":"done"}]'
        ),
        b'\xef\xbb\xbf [{"logId":65536.0,"logDateTim":17,"handleCode":200,"handleMsg":"done"}]',
    ],
)
def test_callbacks_of_each_form(body: bytes) -> None:
    assert read_callbacks(body) == [Callback(log_id=65536, time_ms=17, code=200, message="done")]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (b'"a\\ud83d"', "a\ufffd"),
        (b'"\xff\\u0000"', "\ufffd\ufffd"),
        (b"null", ""),
        (b"17", "17"),
        (b'{"rows":[1,2]}', '{"rows":[1,2]}'),
        (b'"' + b"x" * 10_000 + b'"', "x" * 4000),
    ],
)
def test_no_message_costs_a_result(written: bytes, message: str) -> None:
    body = b'[{"logId":1,"handleCode":500,"handleMsg":' + written + b"}]"
    assert read_callbacks(body) == [Callback(log_id=1, time_ms=None, code=500, message=message)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "body: "),
        (b"{nonsense", "body: "),
        (b"null", "body: "),
        (b'"x"', "body: "),
        (b"{}", "callbackList"),
        (b'{"callbackList":null}', "callbackList: "),
        (b"[null]", r"\[0\]: "),
        (b'[{"handleCode":200}]', "logId"),
        (b'[{"logId":9.5,"handleCode":200}]', r"\[0\].logId: "),
        (b'[{"logId":1e300,"handleCode":200}]', r"\[0\].logId: "),
        (b'[{"logId":true,"handleCode":200}]', r"\[0\].logId: "),
        (b'[{"logId":[],"handleCode":200}]', r"\[0\].logId: "),
        (b'[{"logId":9223372036854775808,"handleCode":200}]', r"\[0\].logId: "),
        (b'[{"logId":1,"handleCode":200},{"logId":2}]', r"\[1\].handleCode: "),
        (b'{"callbackList":[{"logId":1}]}', r"callbackList\[0\].handleCode: "),
        (b'[{"logId":1,"handleCode":200,"logDateTim":"now"}]', r"\[0\].logDateTim: "),
        (b"[" * 1_000_000, r"\[0\]: "),
        (b'[{"logId":1,"x":' + b"[" * 1_000_000, "body: "),
        (b"[" + b'{"logId":1,"handleCode":2},' * MAX_CALLBACKS + b'{"logId":1}]', "10000"),
        (b"[" + b" " * MAX_CALLBACKS_BYTES + b"]", "body: larger"),
    ],
)
def test_callbacks_that_cannot_be_read_are_refused_by_name(body: bytes, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        read_callbacks(body)


def test_as_many_callbacks_as_are_taken_are_read() -> None:
    body = b"[" + b",".join([b'{"logId":1,"handleCode":200}'] * MAX_CALLBACKS) + b"]"
    assert len(read_callbacks(body)) == MAX_CALLBACKS
    assert read_callbacks(b"[]") == []
    assert read_callbacks(b'{"callbackList":[]}') == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "body"),
        (b"[]", "body"),
        (b'{"registryKey":"a"}', "registryValue"),
        (b'{"registryKey":" ","registryValue":"x"}', "registryKey: "),
        (b'{"registryKey":"a","registryValue":""}', "registryValue: "),
        (b'{"registryKey":7,"registryValue":"x"}', "registryKey: "),
        (b" " * (MAX_REGISTRY_BYTES + 1), "body: larger"),
    ],
)
def test_registrations_that_cannot_be_read_are_refused_by_name(body: bytes, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        read_registry(body)


def test_our_answer_is_that_of_all_dialects_at_once() -> None:
    assert json.loads(answer(200)) == {
        "code": 200,
        "msg": None,
        "content": None,
        "data": None,
        "success": True,
    }
    refused = json.loads(answer(500, "The access token is wrong."))
    assert (refused["code"], refused["success"]) == (500, False)
    assert refused["msg"] == "The access token is wrong."
    told = json.loads(answer(200, data="19"))
    assert told["content"] == told["data"] == "19"


# Numbers


@pytest.mark.parametrize("number", [1, 2**37 - 1, 12345])
def test_a_log_id_says_run_attempt_and_copy(number: int) -> None:
    found = log_id(number, 0x1FE, 255)
    assert found < 2**53
    assert read_log_id(found) == LogId(run=number, attempt_low=0xFE, copy=255)


def test_what_has_no_log_id() -> None:
    for number, copy in ((0, 0), (MAX_RUN + 1, 0), (1, 256), (1, -1)):
        with pytest.raises(ValueError, match=r"copy|run"):
            log_id(number, 1, copy)
    for other in (-1, 0, 65535, 2**53, 2**63):
        assert read_log_id(other) is None


def test_wire_job_ids_are_positive_java_ints_and_those_of_copies_differ() -> None:
    assert wire_job_id(7, 0) == 7
    assert wire_job_id(2**30 - 1, 0) == 2**30 - 1
    for job in (1, 7, 2**22, 2**30, 2**30 + 5, 2**31, 2**62):
        ids = [wire_job_id(job, copy) for copy in range(256)]
        assert len(set(ids)) == 256
        assert all(0 < one < 2**31 for one in ids)
        assert ids[0] < 2**30 <= min(ids[1:])
