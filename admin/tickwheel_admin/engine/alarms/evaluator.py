"""Makes alarms of what happened and of what only time makes true, and decides who is told.

Every admin runs it; a row that is locked lets one of them evaluate at a time. Signals are deleted
in the transaction that writes what follows from them, so none is lost and none counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.alarms.default_rules import DEFAULT_RULES, default_rules
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.matching import RuleBook
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.alarms.run_limits import MEASURED
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.engine.alarms.book import AlarmBook
from tickwheel_admin.engine.alarms.concerns import read_concerns
from tickwheel_admin.engine.alarms.conditions import CONDITIONS, FirstSeen, read_conditions
from tickwheel_admin.engine.alarms.deadlines import is_due, missed_deadlines, plan_deadlines
from tickwheel_admin.engine.alarms.failure_groups import (
    count_failures,
    find_recovered,
    note_recovered,
)
from tickwheel_admin.engine.alarms.happenings import Happening, by_rules, read_happenings, streaks
from tickwheel_admin.engine.alarms.outbox import MessageNames, NewIds
from tickwheel_admin.engine.alarms.recovery import Endings, find_endings
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.events.events import ALARMS, Events
from tickwheel_admin.store.alarms.alarms import due_alarms, lock_alarms, open_alarms_after
from tickwheel_admin.store.alarms.evaluation import (
    AlarmWork,
    SeenSince,
    lock_evaluator,
    read_alarm_work,
    read_seen_since,
    write_seen_since,
)
from tickwheel_admin.store.alarms.rules import (
    add_rule,
    has_rules,
    rules_by_id,
    rules_of_kinds,
    rules_of_places,
)
from tickwheel_admin.store.alarms.run_watch import RunWatch
from tickwheel_admin.store.alarms.signals import delete_signals, oldest_signals
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Repeat, Store
from tickwheel_admin.store.database.ids import Ids

log = structlog.get_logger(__name__)

SIGNALS_PER_BATCH = 1_000
DUE_PER_BATCH = 500
LOOK_MS = 10_000  # conditions are looked at so often, by one of all admins
_UNREAD = "unread"
OPEN_PER_LOOK = 1_000  # open alarms that are looked at for whether they are over


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """What one transaction did."""

    more: bool = False
    opened: int = 0
    closed: int = 0
    messages: int = 0


@dataclass(slots=True, kw_only=True)
class _Look:
    """What was seen of conditions, outside of any lock."""

    looked_at: int  # what was noted when it began
    rules: list[AlarmRule]  # of conditions and deadlines
    holding: Sequence[Happening]
    alarms: list[Alarm]  # open ones
    seen_since: SeenSince | None = None  # to be stored
    endings: Endings = field(default_factory=Endings)


class AlarmEvaluator(Loop):
    """Signals, repeats and escalations at once; conditions every few seconds."""

    interval_seconds = 2.0

    def __init__(
        self,
        store: Store,
        ids: Ids,
        events: Events,
        *,
        calendars: CalendarCache,
        new_token: Callable[[], str],
        with_default_rules: bool = True,
        watch: RunWatch | None = None,
    ) -> None:
        """
        Args:
            new_token: makes ids of messages unguessable, and unique across installations.
            with_default_rules: an installation that never had a rule is given some.
            watch: what this admin's runs are measured by; it is kept up to date here.
        """
        super().__init__()
        self._store = store
        self._ids = ids
        self._events = events
        self._calendars = calendars
        self._new_token = new_token
        self._needs_rules = with_default_rules
        self._idle_until = 0  # database time: there was nothing to look at
        self.watch = watch or RunWatch()
        self._edits: str | None = _UNREAD  # of rules, up to which the watch knows them
        self._after = 0  # the open alarm up to which endings were looked for
        self._failures_looked_at = 0  # database time: whether what failed works again
        self._failures_after = (0, 0)  # up to which group and job that was looked for

    async def run_once(self) -> bool:
        if self._needs_rules:
            await self._ensure_rules()
        work = await self._store.read(read_alarm_work)
        if work.edits != self._edits:
            self.watch.set_rules(await self._store.read(rules_of_kinds, MEASURED))
            self._edits = work.edits
        more = False
        if work.has_signals or (work.first_due_at is not None and work.first_due_at <= work.now):
            done = await self._ids.run_with_ids(
                "alarm", lambda ids: self._store.run(self._take, ids)
            )
            self._report(done)
            more = done.more
        is_idle = 0 <= self._idle_until - work.now < LOOK_MS
        if not is_idle and not 0 <= work.now - work.looked_at < LOOK_MS:
            more = await self._look(work) or more
        wants_look = not 0 <= work.now - self._failures_looked_at < LOOK_MS
        if work.has_failures and wants_look and not more:  # signals of a flood go first
            await self._resolve_failures(work)
        return more

    async def _resolve_failures(self, work: AlarmWork) -> None:
        """Look at some jobs of failure groups; the next pass looks at more."""
        over, self._failures_after = await self._store.read(find_recovered, self._failures_after)
        if over:
            resolved = await self._store.run(note_recovered, over)
            log.info("failure_group.recovered", jobs=len(over), groups=resolved)
            self._events.publish(ALARMS)
        if self._failures_after == (0, 0):
            self._failures_looked_at = work.now

    async def _ensure_rules(self) -> None:
        if not await self._store.read(has_rules):
            ids = await self._ids.take_many("alarm_rule", DEFAULT_RULES)
            await self._store.run(_add_default_rules, ids)
        self._needs_rules = False

    async def _look(self, work: AlarmWork) -> bool:
        look = await self._store.read(self._see, work.looked_at)
        if not look.rules and not look.alarms:
            self._idle_until = work.now + LOOK_MS - 1
            self._after = 0
            return False
        done = await self._ids.run_with_ids(
            "alarm", lambda ids: self._store.run(self._write_look, look, ids)
        )
        self._report(done)
        return done.more

    def _report(self, done: Evaluation) -> None:
        if done.opened or done.closed:
            log.info("alarm.evaluated", opened=done.opened, closed=done.closed)
        if done.messages or done.opened or done.closed:
            self._events.publish(ALARMS)

    # --- transactions ----------------------------------------------------------------------------

    def _take(self, conn: sa.Connection, ids: Sequence[int]) -> Evaluation:
        """Signals, and alarms that are due to be told again."""
        if lock_evaluator(conn) is None:
            return Evaluation()
        now = now_ms(conn)
        signals = oldest_signals(conn, limit=SIGNALS_PER_BATCH)
        failures = count_failures(conn, signals)
        happenings = read_happenings(conn, signals, failures, now=now)
        rules = _rules_about(conn, happenings)
        due = due_alarms(conn, now=now, limit=DUE_PER_BATCH)
        of_due = rules_by_id(conn, {each.rule_id for each in lock_alarms(conn, due)})
        known = {each.id: each for each in rules} | of_due
        book = self._book(conn, known.values(), ids, now=now)
        ruled = RuleBook(rules)
        happenings += streaks(conn, ruled, happenings, now=now)
        book.happened(by_rules(ruled, happenings), known)
        book.again(due, of_due)
        book.write()
        if delete_signals(conn, signals) != len(signals):
            raise Repeat("another admin has taken the same signals")
        more = len(signals) == SIGNALS_PER_BATCH or len(due) == DUE_PER_BATCH
        return _evaluation(book, more=more)

    def _see(self, conn: sa.Connection, looked_at: int) -> _Look:
        """What holds, and which open alarms are over."""
        now = now_ms(conn)
        rules = rules_of_kinds(conn, [*CONDITIONS, AlarmKind.DEADLINE_MISSED])
        self.watch.set_rules(rules)
        first_seen = FirstSeen(read_seen_since(conn) if rules else {})
        found = read_conditions(conn, rules, first_seen, now=now)
        alarms = open_alarms_after(conn, self._after, limit=OPEN_PER_LOOK)
        holding = [*found.holding, *read_concerns(conn, RuleBook(rules), alarms, now=now)]
        look = _Look(looked_at=looked_at, rules=rules, holding=holding, alarms=alarms)
        look.seen_since = first_seen.changed
        if alarms:
            of_alarms = rules_by_id(conn, {each.rule_id for each in alarms})
            standing = by_rules(RuleBook(rules), holding).keys()
            look.endings = find_endings(
                conn, alarms, of_alarms, standing, unsure=found.unsure, now=now
            )
        return look

    def _write_look(self, conn: sa.Connection, look: _Look, ids: Sequence[int]) -> Evaluation:
        """Write what was seen, unless another admin has looked meanwhile."""
        now = now_ms(conn)
        before = lock_evaluator(conn, looked_at=now)
        if before is None:
            return Evaluation()
        if before != look.looked_at:
            lock_evaluator(conn, looked_at=before)
            return Evaluation()
        if look.seen_since is not None:
            write_seen_since(conn, look.seen_since)
        over = look.endings.recovered | look.endings.ended
        known = {each.id: each for each in look.rules}
        known |= rules_by_id(conn, {each.rule_id for each in look.alarms if each.id in over})
        book = self._book(conn, known.values(), ids, now=now)
        ruled = RuleBook(look.rules)
        book.happened(by_rules(ruled, look.holding), known)
        more = self._deadlines(conn, book, look.rules, known, now=now)
        book.ended(look.alarms, known, recovered=look.endings.recovered, ended=look.endings.ended)
        book.write()
        full = len(look.alarms) == OPEN_PER_LOOK
        self._after = look.alarms[-1].id if full else 0
        return _evaluation(book, more=more)

    def _deadlines(
        self,
        conn: sa.Connection,
        book: AlarmBook,
        rules: Sequence[AlarmRule],
        known: Mapping[int, AlarmRule],
        *,
        now: int,
    ) -> bool:
        """Look at the deadlines that are due, one of each rule; whether there may be more."""
        of_kind = [each for each in rules if each.kind is AlarmKind.DEADLINE_MISSED]
        if not of_kind:
            return False
        calendars = self._calendars.get_many(conn, [each.limits.calendar for each in of_kind])
        plan_deadlines(conn, of_kind, calendars, now=now)
        due = [each for each in of_kind if is_due(each, now)]
        for each in due:
            missed = missed_deadlines(conn, each, calendars)
            book.happened({(each.id, m.subject): [m] for m in missed}, known)
        return bool(due)

    def _book(
        self, conn: sa.Connection, rules: Iterable[AlarmRule], ids: Sequence[int], *, now: int
    ) -> AlarmBook:
        quiet = [each.quiet.calendar for each in rules if each.quiet is not None]
        calendars: Mapping[str, Calendar] = self._calendars.get_many(conn, quiet)
        names = MessageNames(ids=NewIds(ids), new_token=self._new_token)
        return AlarmBook(conn, names, calendars, now=now)


def _add_default_rules(conn: sa.Connection, ids: Sequence[int]) -> None:
    """Of two admins at once, one meets the unique names, and repeats."""
    if has_rules(conn):
        return
    now = now_ms(conn)
    for rule in default_rules(ids):
        add_rule(conn, rule, now=now)


def _rules_about(conn: sa.Connection, happenings: Sequence[Happening]) -> list[AlarmRule]:
    if not happenings:
        return []
    places = [each.place for each in happenings]
    return rules_of_places(
        conn,
        executor_ids={each.executor_id for each in places if each.executor_id is not None},
        job_ids={each.job_id for each in places if each.job_id is not None},
        tags={tag for each in places for tag in each.tags},
    )


def _evaluation(book: AlarmBook, *, more: bool) -> Evaluation:
    return Evaluation(more=more, opened=book.opened, closed=book.closed, messages=book.messages)
