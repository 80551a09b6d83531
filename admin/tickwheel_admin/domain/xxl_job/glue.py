"""Scripts as executors of XXL-JOB run them: GLUE, in its languages."""

from __future__ import annotations

from tickwheel_admin.domain.runs.script import GLUE_LANGUAGES

BEAN = "BEAN"  # a handler in the executor's code, no script
# XXL-JOB's `glueType` by our name of the language.
GLUE_TYPES = dict(
    zip(
        GLUE_LANGUAGES,
        (
            "GLUE_GROOVY",
            "GLUE_SHELL",
            "GLUE_PYTHON",
            "GLUE_PHP",
            "GLUE_NODEJS",
            "GLUE_POWERSHELL",
        ),
        strict=True,
    )
)
LANGUAGES = {glue: language for language, glue in GLUE_TYPES.items()}


def code_of(handler: str, sha256: str | None) -> str:
    """What an executor compares when a job is started again.

    Java ends what a job number still runs when it is told to run other code under that number,
    before it looks whether the job is busy.

    Args:
        sha256: of the job's script; None: it has none.
    """
    return handler if sha256 is None else f"script {sha256}"


def glue_version(sha256: str) -> int:
    """What is sent as `glueUpdatetime` of a source.

    An executor names the script's file after it, and keeps the file and the handler while it does
    not change. So it must be another number for every source, and the same again after a roll
    back: an instant would be neither.
    """
    return int(sha256[:13], 16)  # 52 bits: JavaScript's numbers hold them
