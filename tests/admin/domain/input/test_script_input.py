"""Scripts of jobs as they are written: what is taken, what is refused, and what is kept."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.input.job import (
    changed_fields,
    config_from_json,
    config_to_json,
    job_to_raw,
    parse_job,
)
from tickwheel_admin.services.jobs.yaml import from_yaml, to_yaml
from tickwheel_shared.protocol import MAX_SCRIPT_BYTES

SOURCE = "#!/bin/sh\nset -eu\necho 'Grüße 你好'\n\n\t# the end  \n"
SHA256 = hashlib.sha256(SOURCE.encode()).hexdigest()
SIGNATURE = base64.b64encode(bytes(64)).decode()
JOB: dict[str, Any] = {"name": "report", "script": {"language": "shell", "source": SOURCE}}


def script(**changes: Any) -> dict[str, Any]:
    return {"name": "report", "script": {"language": "python", "source": "print(1)\n"} | changes}


def refused(raw: dict[str, Any], protocol: Protocol = Protocol.TICKWHEEL) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as caught:
        parse_job(raw, protocol)
    return [(problem.field, problem.code) for problem in caught.value.problems]


def test_a_script_job_need_not_name_its_handler() -> None:
    config = parse_job(JOB)
    assert config.handler == "script"
    assert config.script is not None
    assert (config.script.language, config.script.sha256) == ("shell", SHA256)
    assert config.script.source == SOURCE  # not a byte of it is changed
    assert config.script.text_to_sign == f"tickwheel script 1\nshell\n{SHA256}\n"
    assert parse_job(job_to_raw(config)) == config
    assert parse_job(from_yaml(to_yaml(job_to_raw(config)))) == config


def test_yaml_shows_the_source_and_no_hash_that_nobody_can_compute() -> None:
    text = to_yaml(job_to_raw(parse_job(JOB)))
    assert "sha256" not in text
    assert parse_job(from_yaml(text.replace("set -eu", "set -e"))).script is not None
    kept = job_to_raw(config_from_json(config_to_json(parse_job(JOB))))
    assert SHA256 in to_yaml(kept)  # the source was not read: its hash stands for it


def test_a_revision_is_stored_without_the_source() -> None:
    config = parse_job(script(remark="first one", signature=SIGNATURE))
    text = config_to_json(config)
    assert "print(1)" not in text
    stored = config_from_json(text)
    assert stored == config
    assert stored.script is not None
    assert stored.script.source is None
    assert (stored.script.remark, stored.script.signature) == ("first one", SIGNATURE)
    assert parse_job(job_to_raw(stored)) == stored  # by the hash alone
    assert "print(1)" not in repr(config)


def test_a_change_tells_hashes_not_sources() -> None:
    before, after = parse_job(script()), parse_job(script(source="print(2)\n", remark="two"))
    changed = changed_fields(before, after)
    assert list(changed) == ["script"]
    assert "source" not in changed["script"][0]
    assert changed["script"][1]["remark"] == "two"
    assert changed_fields(before, parse_job(job_to_raw(before))) == {}


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"language": "Python"}, "language", "script.language"),
        ({"language": "../sh"}, "language", "script.language"),
        ({"language": None}, "language", "required"),
        ({"source": None}, "source", "required"),
        ({"source": " \n\t"}, "source", "required"),
        ({"source": 5}, "source", "wrong_type"),
        ({"source": "a\0b"}, "source", "script.nul"),
        ({"source": "a\ud800b"}, "source", "script.not_utf8"),
        ({"source": "é" * (MAX_SCRIPT_BYTES // 2) + "x"}, "source", "script.too_large"),
        ({"language": "shell", "source": "a\r\nb"}, "source", "script.line_ends"),
        ({"sha256": SHA256}, "sha256", "script.sha256_differs"),
        ({"source": None, "sha256": "abc"}, "sha256", "script.sha256"),
        ({"remark": "x" * 201}, "remark", "too_long"),
        ({"signature": "!"}, "signature", "script.signature"),
        ({"signature": "YWJj"}, "signature", "script.signature"),
        ({"text": "x"}, "text", "unknown_field"),
    ],
)
def test_what_is_no_script_is_refused(change: dict[str, Any], field: str, code: str) -> None:
    assert refused(script(**change)) == [(f"script.{field}", code)]


def test_line_ends_stay_where_they_do_no_harm() -> None:
    config = parse_job(script(language="powershell", source="Get-Date\r\n"))
    assert config.script is not None
    assert config.script.source == "Get-Date\r\n"
    assert parse_job(script(source="x" * MAX_SCRIPT_BYTES)).script is not None


def test_handler_and_script_belong_together() -> None:
    assert refused(script() | {"handler": "send"}) == [("handler", "script.handler")]
    assert refused({"name": "a", "handler": "script"}) == [("script", "script.missing")]
    assert refused({"name": "a", "script": "echo"}) == [("script", "wrong_type")]
    assert parse_job({"name": "a", "handler": "script"}, Protocol.XXL_JOB).script is None
    assert parse_job(script(language="groovy"), Protocol.XXL_JOB).handler == "script"
    unknown = refused(script(language="ruby"), Protocol.XXL_JOB)
    assert unknown == [("script.language", "script.language_xxl")]
