"""Jobs declared in code: what may become of a declaration, and the rule that says which it is.

    nobody knows the name ──► applied | waiting | ignored | invalid
    waiting, ignored      ──► applied            a person accepts it
    waiting               ──► ignored            a person does not want it
    applied               ──► released           a person takes the job out of code's hands
    applied               ──► ignored            a person deletes the job
    any                   ──► applied | waiting | ignored | invalid
                                                 code says something else, and nobody has said that
                                                 they want to hear no more of this name

A declaration is *settled* when looking at it again could not change anything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from tickwheel_admin.domain.errors import Problem, Word

MAX_KNOWN = 2_000  # declarations of one executor, whatever many programs its nodes run


class CodeJobs(StrEnum):
    """What an executor does with jobs that its nodes declare."""

    APPLY = "apply"  # they are created and updated at once
    ASK = "ask"  # a person decides on each
    IGNORE = "ignore"  # they are only listed


class DeclaredState(StrEnum):
    """What became of a declaration."""

    APPLIED = "applied"  # the job is as declared, and code manages it
    WAITING = "waiting"  # a person is asked
    IGNORED = "ignored"  # the policy or a person does not want it
    INVALID = "invalid"  # no job can be made of it; `problems` say why
    RELEASED = "released"  # a person took the job out of code's hands


class DeclaredReason(StrEnum):
    """Why a declaration waits or is ignored."""

    POLICY_ASK = "policy_ask"  # waiting: the executor's policy is to ask
    MADE_BY_HAND = "made_by_hand"  # waiting: a job of that name exists that code did not make
    RENAMED = "renamed"  # waiting: probably the new name of another job, see `renamed_from`
    POLICY_IGNORE = "policy_ignore"  # ignored: the executor's policy
    DELETED = "deleted"  # ignored: a person deleted the job that was made of it
    PERSON = "person"  # ignored: a person said so


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What becomes of a declaration, and why."""

    state: DeclaredState
    reason: DeclaredReason | None = None
    renamed_from: str | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJob:
    """A job as the process that started last declares it."""

    executor_id: int
    name: str
    raw: str  # JSON object with the fields that the API takes for a job
    job_id: int | None  # the job that code manages by it
    ruling: Ruling
    declared_by: str  # the node's name
    node_id: int
    declared_at: int  # when that node connected

    @property
    def is_given_up(self) -> bool:
        """Whether a person does not want to hear of this name, whatever code says."""
        if self.ruling.state is DeclaredState.RELEASED:
            return True
        return (
            self.ruling.state is DeclaredState.IGNORED
            and self.ruling.reason is not DeclaredReason.POLICY_IGNORE
            and self.job_id is None
        )

    def is_settled(self, raw: str, policy: CodeJobs) -> bool:
        """Whether nothing can have changed for this declaration since it was looked at."""
        if self.raw != raw:
            return False
        match self.ruling.state:
            case DeclaredState.APPLIED | DeclaredState.RELEASED:
                return True
            case DeclaredState.IGNORED:
                return (
                    self.ruling.reason is not DeclaredReason.POLICY_IGNORE
                    or policy is CodeJobs.IGNORE
                )
            case _:
                return False


def rule(
    known: DeclaredJob | None,
    *,
    policy: CodeJobs,
    name_is_taken: bool,
    renamed_from: str | None,
) -> Ruling:
    """What becomes of a declaration that is not settled and breaks no rule.

    Args:
        known: what is known of the name; None: nobody has declared it before.
        name_is_taken: a job of that name exists that code does not manage.
        renamed_from: the declared job whose new name this probably is.
    """
    if known is not None and known.is_given_up:
        return known.ruling
    if policy is CodeJobs.IGNORE:
        return Ruling(state=DeclaredState.IGNORED, reason=DeclaredReason.POLICY_IGNORE)
    if known is None or known.job_id is None:
        if name_is_taken:
            return _waits(DeclaredReason.MADE_BY_HAND)
        if renamed_from is not None:
            return _waits(DeclaredReason.RENAMED, renamed_from)
    if policy is CodeJobs.ASK:
        return _waits(DeclaredReason.POLICY_ASK)
    return Ruling(state=DeclaredState.APPLIED)


def _waits(reason: DeclaredReason, renamed_from: str | None = None) -> Ruling:
    return Ruling(state=DeclaredState.WAITING, reason=reason, renamed_from=renamed_from)


def problems_to_json(problems: Sequence[Problem]) -> str:
    """The form in which problems are stored."""
    stored = [asdict(each) | {"words": _names_of_words(each)} for each in problems]
    return json.dumps(stored, ensure_ascii=False, default=str)


def problems_from_json(text: str) -> tuple[Problem, ...]:
    """What `problems_to_json` wrote."""
    return tuple(_problem(**each) for each in json.loads(text))


def _problem(*, words: Collection[str], params: Mapping[str, Any], **more: str) -> Problem:
    known = {name: Word(value) if name in words else value for name, value in params.items()}
    return Problem(params=known, **more)


def _names_of_words(problem: Problem) -> list[str]:
    """Those of its params that are translated as well, which JSON does not tell."""
    return [name for name, value in problem.params.items() if isinstance(value, Word)]
