"""An alarm rule about one job, as the job's configuration says it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.rule import GROUP_WINDOW_S, AlarmRule, QuietHours, RuleLimits
from tickwheel_admin.domain.alarms.rule import RuleScope as RuleScope


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAlarm:
    """A rule of scope job. Channels are named, so that it means the same in another installation.

    Its row of `alarm_rule` follows from it, and has the ids of the channels.
    """

    name: str  # unique within the job; 1..100 characters
    kind: AlarmKind
    additional: bool = False
    severity: Severity = Severity.ERROR
    channels: tuple[str, ...] = ()  # names
    limits: RuleLimits = field(default_factory=RuleLimits)
    own_text: str = ""
    quiet: QuietHours | None = None
    repeat_every_s: int | None = None
    escalate_after_s: int | None = None
    escalate_to: tuple[str, ...] = ()  # names
    tell_recovery: bool = True
    group_window_s: int = GROUP_WINDOW_S
    enabled: bool = True

    @property
    def calendars(self) -> dict[str, str]:
        """Names of the calendars that it follows, by field."""
        quiet = None if self.quiet is None else self.quiet.calendar
        named = {"limits.calendar": self.limits.calendar, "quiet.calendar": quiet}
        return {field: name for field, name in named.items() if name is not None}


def rule_of_alarm(
    alarm: JobAlarm,
    *,
    job_id: int,
    channels: tuple[int, ...],
    escalate_to: tuple[int, ...],
    rule_id: int = 0,
    version: int = 1,
) -> AlarmRule:
    """The rule that it is, with the ids of its channels."""
    return AlarmRule(
        id=rule_id,
        version=version,
        scope=RuleScope.JOB,
        job_id=job_id,
        channels=channels,
        escalate_to=escalate_to,
        **{name: getattr(alarm, name) for name in _SHARED},
    )


def alarm_of_rule(
    rule: AlarmRule, *, channels: tuple[str, ...], escalate_to: tuple[str, ...]
) -> JobAlarm:
    """What a job's configuration says of a rule about it, with the names of its channels."""
    shared = {name: getattr(rule, name) for name in _SHARED}
    return JobAlarm(channels=channels, escalate_to=escalate_to, **shared)


_SHARED = tuple(
    name for name in JobAlarm.__dataclass_fields__ if name not in ("channels", "escalate_to")
)
