"""The script of a job in its form: typed there for a new job, else kept by its hash.

A stored job's script is edited on a page of its own, so its form carries the hash alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tickwheel_admin.console.job_form.yaml_view import with_plain_ends
from tickwheel_admin.domain.runs.script import HANDLER, Script

DEFAULTS = {
    "script_language": "shell",
    "script_source": "",
    "script_sha256": "",
    "script_remark": "",
    "script_signature": "",
}


def values_of(script: Script | None, *, is_stored: bool) -> dict[str, str]:
    """The fields of a script.

    Args:
        is_stored: the form is of a job that has this script.
    """
    if script is None:
        return {}
    by_hash = is_stored or script.source is None
    return {
        "script_language": script.language,
        "script_source": "" if by_hash else script.source or "",
        "script_sha256": script.sha256 if by_hash else "",
        "script_remark": script.remark,
        "script_signature": script.signature,
    }


def read(values: Mapping[str, str]) -> dict[str, Any]:
    """The raw script of a job; nothing for a job that runs none."""
    source = with_plain_ends(values["script_source"])
    sha256 = values["script_sha256"]
    if values["handler"].strip() != HANDLER or not (source or sha256):
        return {}
    script = {
        "language": values["script_language"],
        "remark": values["script_remark"],
        "signature": values["script_signature"],
    }
    return {"script": script | ({"source": source} if source else {"sha256": sha256})}
