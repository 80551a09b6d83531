"""An executor: a service whose nodes run jobs; what it may be called."""

from __future__ import annotations

import re
from enum import StrEnum

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.fields import is_clean

MAX_DESCRIPTION_CHARS = 1_000
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class Protocol(StrEnum):
    """How admins and the nodes of an executor reach each other; it never changes."""

    TICKWHEEL = "tickwheel"  # nodes connect to the admins
    XXL_JOB = "xxl_job"  # admins call the nodes


def check_executor(name: str, description: str) -> None:
    """Raise InvalidInput with every rule that the name or the description breaks."""
    problems = []
    if not _NAME.fullmatch(name):
        problems.append(
            Problem(
                field="name",
                code="executor.name_invalid",
                template="1 to 100 of a-z, 0-9, dot, underscore and hyphen,"
                " beginning with a letter or digit.",
            )
        )
    if len(description) > MAX_DESCRIPTION_CHARS:
        problems.append(
            Problem(
                field="description",
                code="too_long",
                template="At most %(limit)d characters, please.",
                params={"limit": MAX_DESCRIPTION_CHARS},
            )
        )
    elif not is_clean(description, lines=True):
        problems.append(
            Problem(
                field="description",
                code="control_characters",
                template="Control characters are not allowed here.",
            )
        )
    if problems:
        raise InvalidInput(problems)
