"""Types of the parameters that `script` and `command` have in common, for their schemas."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Environment = Annotated[
    dict[str, Annotated[str, Meta(max_length=32_768)]],
    Meta(
        max_length=200,
        description="Variables of the environment. Those that decide which code runs, such as "
        "LD_PRELOAD and PATH, are refused.",
    ),
]
Stdin = Annotated[
    str, Meta(max_length=65_536, description="Text for its standard input; empty: no input.")
]
SkipExitCode = Annotated[
    Annotated[int, Meta(ge=1, le=255)] | None,
    Meta(description="The exit code that means: nothing to do. The run is then skipped."),
]
GraceSeconds = Annotated[
    float,
    Meta(
        ge=0,
        le=3_600,
        description="Seconds that it may take to end after a cancel or timeout (SIGTERM), before "
        "it is killed.",
    ),
]
