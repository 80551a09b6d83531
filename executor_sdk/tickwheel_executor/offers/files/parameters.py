"""The types of the parameters of `file`, with the descriptions that a form shows."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from .measures import AGE_PATTERN, SIZE_PATTERN

Action = Annotated[
    Literal["delete", "move", "archive"], Meta(description="What to do with the files")
]
Root = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        description="Name of the folder on the machine that runs the job; its path is known only "
        "there",
    ),
]
Pattern = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="Which files, below the root: *.log, app/*/old-?.log, **/*.tmp. ** stands for "
        "any folders",
    ),
]
Exclude = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=500)]],
    Meta(max_length=50, description="Files to leave alone: *.gz means such names in every folder"),
]
OlderThan = Annotated[
    str,
    Meta(
        pattern=AGE_PATTERN,
        description="Only files that were last changed longer ago: 30m, 12h, 7d, 4w; empty: any",
    ),
]
LargerThan = Annotated[
    str,
    Meta(pattern=SIZE_PATTERN, description="Only files larger than this: 500KB, 100MB; empty: any"),
]
KeepNewest = Annotated[
    int, Meta(ge=0, le=100_000, description="So many of the newest matching files are left alone")
]
MaxFiles = Annotated[
    int, Meta(ge=1, le=100_000, description="The most files of one run, oldest first")
]
ToRoot = Annotated[
    str, Meta(max_length=128, description="Name of the folder to put files into; empty: the same")
]
To = Annotated[
    str,
    Meta(
        max_length=500,
        description="For move a folder, for archive the name of the archive, which ends with "
        ".tar.gz or .zip: old/{date}.tar.gz. {date}, {time} and {run} are those of the run",
    ),
]
IfExists = Annotated[
    Literal["skip", "replace", "rename"],
    Meta(
        description="If there is a file of this name at the new place: leave both, replace it, or "
        "add a number"
    ),
]
RemoveOriginals = Annotated[
    bool, Meta(description="For archive: remove the files once the archive is complete")
]
RemoveEmptyFolders = Annotated[bool, Meta(description="Remove folders that are empty afterwards")]
DryRun = Annotated[bool, Meta(description="Only write to the log what would be done")]
