"""Earlier sources of a GLUE job, which become the first revisions of the script job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.imports.names import cleaned
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.input.job import read_job
from tickwheel_admin.domain.runs.script import MAX_REMARK_CHARS
from tickwheel_admin.domain.xxl_job.glue import LANGUAGES
from tickwheel_admin.domain.xxl_job.records import GlueVersion

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def earlier_scripts(
    raw: Mapping[str, Any], versions: Sequence[GlueVersion]
) -> tuple[tuple[Mapping[str, Any], ...], tuple[ImportNote, ...]]:
    """The scripts that the job `raw` had before its present one, oldest first; what to tell.

    Args:
        versions: as XXL-JOB keeps them: each save adds the new source, so that the last is usually
            the present one.
    """
    if raw.get("script") is None:
        return (), ()
    scripts: list[Mapping[str, Any]] = []
    left_out = 0
    for each in versions:
        language = LANGUAGES.get(each.glue_type)
        script = {"language": language, "source": each.source, "remark": _remark(each)}
        if language is None or read_job({**raw, "script": script}, Protocol.XXL_JOB)[1]:
            left_out += 1
        elif not scripts or not _is_same(scripts[-1], script):
            scripts.append(script)
    if scripts and _is_same(scripts[-1], raw["script"]):
        scripts.pop()
    notes = []
    if scripts:
        text = f"{len(scripts)} earlier sources of its script come along as revisions"
        notes.append(note("script_history", text))
    if left_out:
        text = f"{left_out} earlier sources of its script are no scripts here, and are left out"
        notes.append(note("script_history", text))
    return tuple(scripts), tuple(notes)


def _is_same(script: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(script[name] == other[name] for name in ("language", "source"))


def _remark(version: GlueVersion) -> str:
    """Theirs, with the time at which it was saved there, in whatever zone they kept it."""
    if version.added_local is None:
        return cleaned(version.remark)[:MAX_REMARK_CHARS]
    saved_at = _EPOCH + timedelta(seconds=version.added_local)
    end = f" ({saved_at:%Y-%m-%d %H:%M:%S})"
    return cleaned(version.remark)[: MAX_REMARK_CHARS - len(end)].rstrip() + end
