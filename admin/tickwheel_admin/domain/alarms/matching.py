"""Which rules apply to what happened: the nearest of its kind, and those that are additional."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import AlarmRule, RuleScope


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmPlace:
    """What something happened to: a job, an executor, or neither."""

    executor_id: int | None = None
    job_id: int | None = None
    tags: tuple[str, ...] = ()  # of the job
    # It happened to a run that is a step of a workflow, whose own run tells of it: only rules about
    # the job itself want to hear of the step.
    is_step: bool = False


class RuleBook:
    """Rules, arranged so that those of a place are found without looking at all of them."""

    def __init__(self, rules: Iterable[AlarmRule]) -> None:
        self._by_key: defaultdict[tuple[AlarmKind, RuleScope, object], list[AlarmRule]]
        self._by_key = defaultdict(list)
        self.kinds: set[AlarmKind] = set()  # of which there are rules
        for rule in rules:
            if rule.enabled:
                self._by_key[rule.kind, rule.scope, _key(rule)].append(rule)
                self.kinds.add(rule.kind)

    def of(self, kind: AlarmKind, place: AlarmPlace) -> list[AlarmRule]:
        """The rules that apply: those of the nearest scope, and all additional ones."""
        found = [rule for scope, key in _keys(place) for rule in self._by_key[kind, scope, key]]
        found = [rule for rule in found if _is_of_executor(rule, place)]
        nearest = min((r.scope.distance for r in found if not r.additional), default=None)
        return [r for r in found if r.additional or r.scope.distance == nearest]


def _key(rule: AlarmRule) -> object:
    return {
        RuleScope.JOB: rule.job_id,
        RuleScope.TAG: rule.tag,
        RuleScope.EXECUTOR: rule.executor_id,
        RuleScope.INSTALLATION: None,
    }[rule.scope]


def _keys(place: AlarmPlace) -> Sequence[tuple[RuleScope, object]]:
    if place.is_step:
        return [(RuleScope.JOB, place.job_id)]
    found: list[tuple[RuleScope, object]] = [(RuleScope.INSTALLATION, None)]
    if place.executor_id is not None:
        found.append((RuleScope.EXECUTOR, place.executor_id))
    if place.job_id is not None:
        found.append((RuleScope.JOB, place.job_id))
    found += [(RuleScope.TAG, tag) for tag in dict.fromkeys(place.tags)]
    return found


def _is_of_executor(rule: AlarmRule, place: AlarmPlace) -> bool:
    """A rule about a tag may be about one executor only."""
    return (
        rule.scope is not RuleScope.TAG
        or rule.executor_id is None
        or rule.executor_id == place.executor_id
    )
