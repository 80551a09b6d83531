"""Scripts as executors of XXL-JOB run them: GLUE, in its languages."""

from __future__ import annotations

from tickwheel_admin.domain.jobs.script import GLUE_LANGUAGES

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


def glue_version(sha256: str) -> int:
    """What is sent as `glueUpdatetime` of a source.

    An executor names the script's file after it, and keeps the file and the handler while it does
    not change. So it must be another number for every source, and the same again after a roll
    back: an instant would be neither.
    """
    return int(sha256[:13], 16)  # 52 bits: JavaScript's numbers hold them
