"""Fires: every instant of every trigger is in the ledger exactly once, as its policy says."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from tests.simulation.checks.instants import Instants
from tests.simulation.checks.ledger import Ledger
from tests.simulation.checks.starts import Pause, pauses
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.calendars.calendar_json import calendar_from_json
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger_json import spec_from_json

AHEAD_MS = 2_000  # fires are planned this long before their instant
HOUR_MS = 3_600_000
MOST_COUNTED = 1_001  # stands for "more than a thousand" in a summary


@dataclass(slots=True, kw_only=True)
class _Period:
    """A time during which a trigger was active and did not change."""

    since: int  # seq of the change that began it
    after: int  # exclusive
    until: int | None = None  # inclusive; None: to the end
    before: int | None = None  # seq of the change that ended it
    spec: TriggerSpec
    ended_by_deletion: bool = False  # what was overdue then need not be there


@dataclass(slots=True, kw_only=True)
class _Trigger:
    id: int
    job_id: int
    executor_id: int
    created_at: int
    calendars: Mapping[str, Sequence[CalendarSpec]]  # by name, what each has said
    periods: list[_Period] = field(default_factory=list)
    _known: dict[TriggerSpec, list[Instants]] = field(default_factory=dict)

    def instants(self, spec: TriggerSpec, *, after: int, until: int) -> list[int]:
        """The schedule's instants in (after, until], whatever its calendar said."""
        found = self._by_version(spec, after=after, until=until)
        return sorted(set(found[0]).intersection(*found[1:]))

    def possible(self, spec: TriggerSpec, *, after: int, until: int) -> set[int]:
        """Those too that only some version of its calendar leaves."""
        return set[int]().union(*self._by_version(spec, after=after, until=until))

    def changes_with(self, spec: TriggerSpec) -> bool:
        """Whether the calendar changed, so that nobody knows from outside what it left when."""
        return len(self.calendars.get(spec.calendar or "", ())) > 1

    def _by_version(self, spec: TriggerSpec, *, after: int, until: int) -> list[list[int]]:
        if spec not in self._known:
            said = self.calendars[spec.calendar] if spec.calendar else (None,)
            self._known[spec] = [
                Instants(spec, created_at=self.created_at, calendar=each) for each in said
            ]
        return [each.between(after, until) for each in self._known[spec]]

    @property
    def is_fixed_delay(self) -> bool:
        return any(period.spec.follows_runs for period in self.periods)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fire:
    """A run of a trigger, and when it was made and taken up: by order, for clocks are set."""

    row: Any
    added: int  # seq
    due_at: int  # at first
    taken: float  # seq of its claim or end; infinite while it waits

    def stood_at(self, seq: int) -> bool:
        """Whether an edit then found it taken up or ended already."""
        return self.added < seq and self.taken < seq


def check_fires(database: SimDatabase, ledger: Ledger, history: History) -> None:
    """Compare the ledger with every trigger's schedule and edits."""
    fires, taken_back = _fires(database)
    triggers = _triggers(database, fires, history)
    edits: defaultdict[int, list[int]] = defaultdict(list)
    for row in database.rows("SELECT job_id, seq FROM sim_change WHERE what = 'job'"):
        edits[row.job_id].append(row.seq)
    for trigger_id in fires.keys() - triggers.keys():
        history.violation(f"G2: fires of trigger {trigger_id}, which there never was")
    all_pauses = pauses(ledger)
    for trigger in triggers.values():
        own = fires[trigger.id]
        excused = set(taken_back[trigger.id]) if database.went_back else set()
        excused |= _passed_over(trigger, all_pauses, ledger)
        _check_instants(trigger, own, excused, history, now=database.now())
        for fire in own:
            if not taken_back[trigger.id] or not database.went_back:
                # Else what was made up for may have been taken back, as a fire yet to come.
                _check_policy(trigger, fire, own, history)
            revision = 1 + sum(1 for seq in edits[trigger.job_id] if seq < fire.added)
            _check_parameters(trigger, fire, ledger, history)
            if fire.row.job_revision != revision:
                history.violation(
                    f"G11: run {fire.row.id} for {fire.row.scheduled_at} has revision"
                    f" {fire.row.job_revision}, the job was at {revision}"
                )


def _passed_over(trigger: _Trigger, all_pauses: list[Pause], ledger: Ledger) -> set[int]:
    """Instants of paused times, which nobody need tell of."""
    excused: set[int] = set()
    for pause in all_pauses:
        if pause.executor_id not in (0, trigger.executor_id):
            continue
        # A clock that was set back meanwhile may have been an hour ahead.
        until = min(pause.resumed_at, ledger.latest) + 2 * HOUR_MS * ledger.went_back
        for period in trigger.periods:
            if period.before is None or period.before > pause.since:
                excused |= set(
                    trigger.possible(period.spec, after=pause.paused_at, until=int(until))
                )
    return excused


def _fires(
    database: SimDatabase,
) -> tuple[defaultdict[int, list[_Fire]], defaultdict[int, set[int]]]:
    """The fires of each trigger, and the instants of those that edits took back."""
    added: dict[int, tuple[int, int]] = {}
    taken: dict[int, int] = {}
    taken_back: defaultdict[int, set[int]] = defaultdict(set)
    for row in database.rows(
        "SELECT seq, what, id, trigger_id, scheduled_at, state, attempt, due_at FROM sim_change"
        " WHERE what IN ('run+', 'run', 'run-') ORDER BY seq"
    ):
        if row.what == "run+":
            added[row.id] = (row.seq, row.due_at)
        if row.what == "run-":
            taken_back[row.trigger_id].add(row.scheduled_at)
        elif row.state != "queued" or row.attempt:
            taken.setdefault(row.id, row.seq)
    fires: defaultdict[int, list[_Fire]] = defaultdict(list)
    for row in database.rows(
        "SELECT * FROM run WHERE trigger_id IS NOT NULL AND fire_id IS NULL ORDER BY id"
    ):
        fires[row.trigger_id].append(
            _Fire(
                row=row,
                added=added[row.id][0],
                due_at=added[row.id][1],
                taken=taken.get(row.id, inf),
            )
        )
    return fires, taken_back


def _triggers(
    database: SimDatabase, fires: Mapping[int, list[_Fire]], history: History
) -> dict[int, _Trigger]:
    deleted = {
        (row.job_id, row.at)
        for row in database.rows("SELECT job_id, at FROM sim_change WHERE what = 'job-'")
    }
    executors = {
        row.id: row.executor_id for row in database.rows("SELECT id, executor_id FROM job")
    }
    calendars: defaultdict[str, list[CalendarSpec]] = defaultdict(list)
    for row in database.rows("SELECT reason, spec FROM sim_change WHERE what = 'calendar'"):
        calendars[row.reason].append(calendar_from_json(row.spec))
    triggers: dict[int, _Trigger] = {}
    for row in database.rows("SELECT * FROM sim_change WHERE what LIKE 'trigger%' ORDER BY seq"):
        trigger = triggers.setdefault(
            row.id,
            _Trigger(
                id=row.id,
                job_id=row.job_id,
                executor_id=executors[row.job_id],
                created_at=row.at,
                calendars=calendars,
            ),
        )
        by_deletion = (row.job_id, row.at) in deleted
        ahead = [
            fire
            for fire in fires[row.id]
            if fire.added < row.seq and fire.row.scheduled_at > row.at
        ]
        if trigger.periods and trigger.periods[-1].before is None:
            trigger.periods[-1].until = row.at
            trigger.periods[-1].before = row.seq
            trigger.periods[-1].ended_by_deletion = by_deletion
        for fire in ahead:
            if not fire.stood_at(row.seq) and not by_deletion:
                history.violation(
                    f"G11: run {fire.row.id} of trigger {row.id} was planned ahead for"
                    f" {fire.row.scheduled_at} and was left by an edit at {row.at}"
                )
        if row.what != "trigger-" and row.next_fire_at is not None:
            # What somebody cancelled before its instant stays, and planning goes on after it; so
            # does what was run before the clock was set back.
            after = max([row.at, *(fire.row.scheduled_at for fire in ahead)])
            trigger.periods.append(
                _Period(since=row.seq, after=after, spec=spec_from_json(row.spec))
            )
    return triggers


def _check_instants(
    trigger: _Trigger, fires: list[_Fire], excused: set[int], history: History, *, now: int
) -> None:
    due: set[int] = set()
    possible: set[int] = set(excused)
    for period in trigger.periods:
        until = now if period.until is None else period.until
        instants = set(trigger.instants(period.spec, after=period.after, until=until))
        possible |= trigger.possible(period.spec, after=period.after, until=until)
        standing = [] if period.before is None else [f for f in fires if f.added < period.before]
        # A summary stands for all that it tells of.
        possible |= {at for fire in standing for at in _told_by(trigger, fire, history)}
        if period.ended_by_deletion:
            # What was planned ahead was cancelled, and what was not planned any more is not due.
            planned = [f.row.scheduled_at for f in fires if f.row.scheduled_at <= until]
            due |= {instant for instant in instants if instant <= max(planned, default=0)}
            ahead = until + AHEAD_MS
            possible |= trigger.possible(period.spec, after=period.after, until=ahead)
        else:
            due |= instants
    due -= excused
    if trigger.is_fixed_delay:
        return  # its instants follow from the ends of its runs
    due = _up_to_its_count(trigger, fires, due, history)
    told = Counter(instant for fire in fires for instant in _told_by(trigger, fire, history))
    for instant in sorted(due | told.keys()):
        if instant in due and told[instant] == 0:
            history.violation(f"G1: trigger {trigger.id} has no run for {instant}")
        elif told[instant] > 1:
            history.violation(f"G2: trigger {trigger.id} has {told[instant]} runs for {instant}")
        elif instant not in due and instant not in possible:
            history.violation(f"G2: trigger {trigger.id} had no reason to fire at {instant}")


def _up_to_its_count(
    trigger: _Trigger, fires: list[_Fire], due: set[int], history: History
) -> set[int]:
    """What is due until the trigger has brought as many runs as it says."""
    most = trigger.periods[0].spec.repeat_count if trigger.periods else None
    if most is None:
        return due
    brought = [fire.row.scheduled_at for fire in fires if not _is_summary(fire.row)]
    if len(brought) > most:
        history.violation(f"trigger {trigger.id} brought {len(brought)} runs instead of {most}")
    if len(brought) < most:
        return due
    return {instant for instant in due if instant <= max(brought)}


def _is_summary(row: Any) -> bool:
    """Whether it only tells of missed fires that nobody makes up for."""
    return row.state == "skipped" and row.reason == "misfire"


def _told_by(trigger: _Trigger, fire: _Fire, history: History) -> Iterable[int]:
    """The instants that a row of the ledger accounts for."""
    row = fire.row
    if not _is_summary(row):
        return [row.scheduled_at]
    summary = json.loads(row.message)
    spec = _spec_of(trigger, fire)
    between = {"after": summary["from"] - 1, "until": summary["to"]}
    if trigger.changes_with(spec):
        return trigger.possible(spec, **between)
    instants = trigger.instants(spec, **between)
    count = min(len(instants), MOST_COUNTED)
    if count != summary["missed"] or row.scheduled_at != summary["to"]:
        history.violation(f"G9: run {row.id} tells of {summary}; missed were {instants}")
    return instants


def _check_policy(trigger: _Trigger, fire: _Fire, fires: list[_Fire], history: History) -> None:
    row, spec = fire.row, _spec_of(trigger, fire)
    if trigger.is_fixed_delay:
        return
    if row.origin == "schedule" and not 0 <= fire.due_at - row.scheduled_at <= spec.jitter_ms:
        late_ms = fire.due_at - row.scheduled_at
        history.violation(
            f"run {row.id} was due {late_ms} ms late, with {spec.jitter_ms} of jitter"
        )
    threshold = spec.misfire_threshold_ms
    late_ms = row.created_at - row.scheduled_at
    if row.origin == "schedule":
        if late_ms > threshold:
            history.violation(f"G9: run {row.id} was planned {late_ms} ms late and is no misfire")
        return
    if late_ms <= threshold:
        history.violation(f"G9: run {row.id} is a misfire, planned only {late_ms} ms late")
    together = [
        other.row
        for other in fires
        if other.row.origin == "misfire" and other.row.created_at == row.created_at
    ]
    made_up = sorted(other.scheduled_at for other in together if not _is_summary(other))
    most = {"skip": 0, "fire_once": 1, "fire_all": spec.catch_up_limit}
    limit = most[spec.misfire]
    if len(made_up) > limit:
        history.violation(f"G9: run {row.id}: {len(made_up)} missed fires are made up for at once")
    if spec.repeat_count is not None or trigger.changes_with(spec):
        return
    if _is_summary(row) and (len(made_up) < limit or (made_up and row.scheduled_at > made_up[0])):
        history.violation(f"G9: run {row.id} skips what was to be made up for")


def _spec_of(trigger: _Trigger, fire: _Fire) -> TriggerSpec:
    for period in trigger.periods:
        if fire.added > period.since and (period.before is None or fire.added < period.before):
            return period.spec
    return trigger.periods[-1].spec


def _check_parameters(trigger: _Trigger, fire: _Fire, ledger: Ledger, history: History) -> None:
    """Key by key, a trigger's parameters stand over its job's."""
    own = _spec_of(trigger, fire).parameters
    if own is None:
        expected = None
    else:
        expected = {**json.loads(ledger.config(fire.row)["parameters"]), **json.loads(own)}
    if json.loads(fire.row.parameters or "null") != expected:
        history.violation(f"run {fire.row.id} has parameters {fire.row.parameters}")
