"""Secrets of a run: hidden in everything that its handler writes, however it is written."""

from __future__ import annotations

import html
import json
import logging
import re
import shlex
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec
import pytest

from tickwheel_executor import Fail, Retry, Run, Skip
from tickwheel_executor.testing import run_handler
from tickwheel_executor.testing.requests import make_request
from tickwheel_shared.protocol import MAX_LINE_CHARS
from tickwheel_shared.secret_mask import HIDDEN, SecretMask

MARKER = "can\"a'ry/7 é$&<%\\"
PLAIN = "canary7c1f9e"
PEM = "-----BEGIN KEY-----\nAAAA/secret+line\nBB\nCCCC=\n"

WAYS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": json.dumps,
    "JSON with its characters": lambda value: json.dumps(value, ensure_ascii=False),
    "JSON of PHP": lambda value: json.dumps(value).replace("/", "\\/"),
    "repr": repr,
    "repr of a list": lambda value: repr([value]),
    "repr of bytes": lambda value: repr(value.encode()),
    "URL": quote,
    "a part of a URL": lambda value: quote(value, safe=""),
    "a form": quote_plus,
    "a URL of other programs": lambda value: re.sub(
        "%..", lambda found: found[0].lower(), quote(value, safe="")
    ),
    "a shell": shlex.quote,
    "sh -x": lambda value: "'" + value.replace("'", "'\\''") + "'",
    "HTML": html.escape,
    "an exception": lambda value: str(KeyError(value)),
}


@pytest.mark.parametrize("value", [MARKER, PLAIN])
@pytest.mark.parametrize("way", WAYS)
def test_a_value_is_found_however_it_is_written(way: str, value: str) -> None:
    written = WAYS[way](value)

    hidden = SecretMask([value]).hide(f"a={written};b")

    assert hidden.strip("'\"[]b;=a") == HIDDEN


def test_lines_of_a_value_and_values_within_each_other() -> None:
    mask = SecretMask([PEM, "abcdef", "defghi", "abcd"])

    assert mask.hide(PEM.replace("\n", "\r\n")) == f"{HIDDEN}\r\n{HIDDEN}\r\nBB\r\n{HIDDEN}\r\n"
    assert mask.hide("-abcdefghi-abcd-ABCD-abcdabcd") == (f"-{HIDDEN}-{HIDDEN}-ABCD-{HIDDEN}")
    assert SecretMask(["abab"]).hide("xabababx") == f"x{HIDDEN}x"
    assert "abcdef" not in repr(mask)


def test_json_stays_json() -> None:
    mask = SecretMask(['":"x', "12345", PLAIN])
    data = {"a": "x", "pin": 12345, PLAIN: [f"-{PLAIN}-", True, None], "big": 10**30}

    hidden = mask.hide_json(msgspec.Raw(msgspec.json.encode(data)), limit=1_000)

    assert json.loads(bytes(hidden)) == {
        "a": "x", "pin": HIDDEN, HIDDEN: [f"-{HIDDEN}-", True, None], "big": 10**30,
    }  # fmt: skip
    assert bytes(mask.hide_json(msgspec.Raw(b'"12345"'), limit=3)) == b"null"
    kept = msgspec.Raw(b'{"a": 1.50}')
    assert mask.hide_json(kept, limit=1) is kept


# --- what handlers do ----------------------------------------------------------------------------


def writes_all_it_can(run: Run) -> dict[str, Any]:
    secret = run.parameters["key"]
    run.log.info("the key is %s", secret)
    print(f"key: {secret}")
    print(secret, file=sys.stderr)
    logging.getLogger("shop").warning("key %r", {"key": secret})
    try:
        raise ValueError(secret)
    except ValueError:
        run.log.exception("look")
        logging.getLogger("shop").exception("look")
    run.progress(0.5, secret)
    run.save_checkpoint({"key": secret})
    run.state["key"] = [secret]
    return {"key": secret, secret: 1}


def raises(error: type[Exception]) -> Callable[[Run], None]:
    def work(run: Run) -> None:
        run.save_checkpoint([run.parameters["key"]])
        raise error("x" * 3_940 + run.parameters["key"] * 4)  # where messages are cut

    return work


def takes_a_number(key: int) -> int:
    return key


@pytest.mark.parametrize("value", [MARKER, PLAIN, PEM])
async def test_what_a_handler_writes_does_not_show_its_secrets(
    value: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    given: dict[str, Any] = {"parameters": {"key": value}, "secrets": [value]}

    ends = [await run_handler(writes_all_it_can, state={}, **given)]
    for error in (ValueError, Retry, Fail, Skip):
        ends.append(await run_handler(raises(error), **given))
    ends.append(await run_handler(takes_a_number, **given))

    assert [end.outcome for end in ends] == [
        "succeeded", "failed", "failed", "failed", "skipped", "failed",
    ]  # fmt: skip
    assert ends[0].state == {"key": [HIDDEN]}
    assert ends[0].result == {"key": HIDDEN, HIDDEN: 1}
    printed = capsys.readouterr()
    texts = (repr(ends), printed.out + printed.err, caplog.text)
    for line in value.splitlines():
        for form in {line, json.dumps(line)[1:-1], repr(line)[1:-1]} if len(line) > 3 else ():
            assert not [text for text in texts if form in text]


async def test_a_value_at_the_cut_of_an_endless_line_is_not_written_in_halves() -> None:
    def work(run: Run) -> None:
        for start in range(0, 3 * MAX_LINE_CHARS, 10):
            print("0123456789"[: 10 - start % 7], end="")
            print(PLAIN[:5], end="")
            print(PLAIN[5:], end="")

    end = await run_handler(work, secrets=[PLAIN])

    assert len(end.log) > 1
    assert not [line for line in end.lines() if PLAIN[:5] in line or PLAIN[-5:] in line]


def test_neither_a_run_nor_its_request_prints_parameters() -> None:
    request = make_request(1, "work", {"key": PLAIN}, secrets=[PLAIN])

    assert PLAIN not in f"{request!r} {request}"
