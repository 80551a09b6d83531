"""What a channel is asked to tell, without any words of a channel's own format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity

MAX_ENTRIES = 50  # of one message; the page behind its link lists all


class Occasion(StrEnum):
    """Why an alarm is told. The values are stored, and part of the webhook's schema."""

    OPENED = "opened"
    REPEATED = "repeated"  # it is still open
    ESCALATED = "escalated"  # nobody acknowledged it
    RECOVERED = "recovered"
    TEST = "test"  # somebody tries the channel


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmEntry:
    """One alarm in a message. Texts are English message ids with params, translated by channels.

    Every text from outside (names, error lines) may hold anything: each channel escapes it.
    """

    alarm_id: int  # 0: of a test
    occasion: Occasion
    kind: AlarmKind
    severity: Severity
    template: str  # what is the matter
    params: Mapping[str, Any] = field(default_factory=dict)
    since: int  # UTC ms, when it began
    last_at: int  # UTC ms, when it happened last
    count: int = 1  # how often
    closed_at: int | None = None  # UTC ms; None: it was open when the message was put together
    rule_name: str = ""
    own_text: str = ""  # the rule's own text, rendered; "": it has none
    executor_name: str | None = None
    job_name: str | None = None  # of a failure of several jobs: that of the newest run
    failure: str | None = None  # the error that runs of several jobs failed with; it is about that
    owner: str | None = None  # of the job
    run_id: int | None = None  # the newest run that it is about
    error_line: str | None = None  # the last line that the run failed with
    before_template: str = ""  # what the subject did before: "It had succeeded 34 times."
    before_params: Mapping[str, Any] = field(default_factory=dict)
    next_fire_at: int | None = None  # UTC ms
    # Absolute URLs of pages by what is there: "run", "log", "retry" and "answer" (pages that
    # ask), "job", "executor", "alarm", "failure".
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmMessage:
    """One message: about one alarm, or a digest of several."""

    id: str  # the same at each attempt to send it; at most 64 letters, digits and hyphens
    written_at: int  # UTC ms
    installation: str  # what the admin's pages are called, or their URL
    entries: Sequence[AlarmEntry]  # at least one, at most MAX_ENTRIES; the worst and newest first
    covered: int  # how many alarms it covers, also those that are not among the entries
    link: str  # absolute URL of the page that lists all of them

    @property
    def is_digest(self) -> bool:
        """It covers several alarms."""
        return self.covered > 1

    @property
    def severity(self) -> Severity:
        """The worst of its entries."""
        errors = any(each.severity is Severity.ERROR for each in self.entries)
        return Severity.ERROR if errors else Severity.WARNING
