"""How a command ends that could not do what it was asked."""

from __future__ import annotations


class Failure(Exception):
    """What a person can put right, said in one sentence; ends the command with its exit code."""

    exit_code: int = 1
