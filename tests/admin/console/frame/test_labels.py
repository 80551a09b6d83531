"""What the console says: which nodes a routing takes, what needs attention, what runs wait for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs
from multidict import MultiDict

from tickwheel_admin.console.frame.formatting import duration
from tickwheel_admin.console.frame.i18n import LANGUAGE, message_text
from tickwheel_admin.console.frame.local_time import instant_of, local_text
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, RequestLocale
from tickwheel_admin.console.job_form.form import draft_of_form, form_as_sent
from tickwheel_admin.console.job_form.routing import RoutingNow, routing_now
from tickwheel_admin.console.jobs.routing_labels import why
from tickwheel_admin.console.overview.attention_labels import _ICONS, concern_rows
from tickwheel_admin.console.runs import labels
from tickwheel_admin.console.runs.estimates import end_by_progress
from tickwheel_admin.console.runs.filter import HOUR_MS, fields_of, read_filter
from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.executors.node import Node, NodeState
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.routing.choice import Choice, PassedOver, Why
from tickwheel_admin.domain.runs.run import WORKFLOW, Origin, Run, RunState
from tickwheel_admin.engine import engine  # noqa: F401 - defines all loops
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.overview.attention.service import AlarmKind, Concern, Severity
from tickwheel_admin.services.runs.service import RunQuery
from tickwheel_admin.services.runs.waiting import Waiting
from tickwheel_admin.services.system.service import loop_label
from tickwheel_admin.web.i18n import CHINESE, translate

NOW = 1_795_177_886_000  # 2026-11-20 13:31:26 in Berlin


@pytest.fixture(autouse=True)
def in_berlin() -> Iterator[None]:
    before = REQUEST_LOCALE.set(RequestLocale(timezone="Europe/Berlin", now_at=NOW))
    yield
    REQUEST_LOCALE.reset(before)


# --- routing -----------------------------------------------------------------------------------


def node(number: int, name: str, *, cordoned: bool = False, **labels: str) -> Node:
    return Node(
        id=number, executor_id=1, name=name, state=NodeState.LIVE, draining=False,
        cordoned=cordoned, drain_wanted=False, slots=4, in_use=0, weight=5,
        handlers=frozenset({"count"} if number < 3 else {"other"}), unstoppable=frozenset(),
        labels=labels, sdk="", address="", connected_at=0, lease_expires_at=0, full_lease_at=0,
        ended_at=None,
    )  # fmt: skip


LIVE = [
    node(1, "n2", zone="eu"),
    node(2, "n1", zone="eu", gpu="a100"),
    node(3, "n3", cordoned=True, zone="us"),
]


def now_for(strategy: str = "round_robin", names: str = "", selector: str = "") -> RoutingNow:
    return routing_now(
        LIVE, strategy=strategy, names=names.split(), selector=selector, handler="count"
    )


@pytest.mark.parametrize(
    ("strategy", "names", "selector", "words"),
    [
        ("round_robin", "", "zone=eu", "2 of 3 live nodes match now: n1, n2"),
        ("round_robin", "n1", "", "3 of 3 live nodes match now: n1, n2, n3"),  # not its field
        ("pinned", "n1 n3", "", "2 of 3 live nodes match now: n1, n3"),
        ("pinned", "n*", "gpu", "1 of 3 live nodes match now: n1"),
        ("failover", "n3 n2", "", "3 of 3 live nodes match now, in this order: n3 → n2 → n1"),
        ("weighted", "", "gpu", "1 of 3 live nodes match now: n1 ×5"),
        ("random", "", "zone=cn", "None of the 3 live nodes matches now; its runs would wait."),
        ("sharded", "", "", ""),  # no such strategy: the form says so at its field
    ],
)
def test_the_hint_names_the_nodes_that_match(
    strategy: str, names: str, selector: str, words: str
) -> None:
    found = now_for(strategy, names, selector)

    assert found.words == words
    assert found.any_matches == ("match now" in words)
    assert found.labels == ("gpu=a100", "zone=eu", "zone=us")


def test_the_hint_tells_what_else_keeps_a_matching_node_from_runs() -> None:
    assert now_for(selector="zone=us").notes == (
        "Without the handler “count”: n3",
        "Cordoned or shutting down: n3",
    )


def test_the_hint_tells_where_a_selector_is_wrong() -> None:
    problem = now_for(selector="zone=eu gpu").problem

    assert problem is not None
    assert problem.params["at"] == 9


def test_the_hint_speaks_of_a_single_node_and_of_none() -> None:
    def words(live: list[Node], selector: str = "") -> str:
        return routing_now(
            live, strategy="first", names=(), selector=selector, handler=""
        ).words  # fmt: skip

    assert words(LIVE[:1]) == "The only live node matches now: n2"
    assert words(LIVE[:1], "gpu").startswith("The only live node does not match now")
    assert words([]).startswith("No node of this executor is live now")


# --- the filter of runs ------------------------------------------------------------------------


def test_a_filter_is_read_back_as_it_is_written() -> None:
    query = RunQuery(
        state="failed_any", job_id=3, executor_id=1, trigger_id=9, node_id=7, origin="api",
        requested_by="ana", from_at=NOW - HOUR_MS, to_at=NOW,
    )  # fmt: skip

    assert read_filter(dict(fields_of(query))) == query


@pytest.mark.parametrize(
    "values",
    [
        {"state": "broken", "origin": "nowhere", "node": "x", "last": "2h"},
        {"from": "9" * 15, "to": "-1", "job": "٣", "by": " "},
    ],
)
def test_what_means_nothing_is_left_aside(values: dict[str, str]) -> None:
    assert read_filter(values) == RunQuery()


def test_a_period_ends_now_and_gives_way_to_instants() -> None:
    assert read_filter({"last": "6h"}) == RunQuery(from_at=NOW - 6 * HOUR_MS)
    assert read_filter({"last": "6h", "to": "5"}) == RunQuery(to_at=5)


def test_local_times_are_those_of_the_reader() -> None:
    assert local_text(NOW) == "2026-11-20T13:31:26"
    assert instant_of("2026-11-20T13:31:26") == NOW
    assert local_text(instant_of("2026-07-01T08:30")) == "2026-07-01T08:30"
    assert instant_of("yesterday") is None
    assert local_text(None) == ""


# --- reasons -----------------------------------------------------------------------------------


def test_a_run_tells_why_its_node_was_chosen() -> None:
    choice = Choice(
        by="least_busy", candidates=2, used=3, slots=16, passed=(PassedOver("n2", Why.CORDONED),)
    )
    assert why(choice.to_json()) == ["Least busy: 3 of 16 slots used.", "n2 was cordoned."]
    assert why(None) == []
    assert why('{"by": "a newer version"}') == []


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        (Waiting(code="blocked", template="", runs=(812,)), "waiting for run"),
        (Waiting(code="blocked", template="", runs=(1, 2)), "waiting for 2 earlier runs"),
        (
            Waiting(code="no_free_slot", template="", params={"slots": 4}, executor="billing"),
            "waiting for a slot on billing",
        ),
        (
            Waiting(code="pinned_node", template="", params={"node": "n1"}),
            "waiting for the node n1",
        ),
        (Waiting(code="not_due", template="", params={"due_at": NOW}), "due at 13:31:26"),
        (Waiting(code="new", template="For %(what)s.", params={"what": "that"}), "For that."),
    ],
)
def test_a_row_says_in_a_few_words_what_its_run_waits_for(waiting: Waiting, words: str) -> None:
    assert labels.waiting_note(waiting) == words


FAILURE = FailureGroup(
    id=7,
    executor_id=1,
    text="refused",
    since=NOW,
    last_at=NOW,
    runs=43,
    jobs=40,
    first_run_id=1,
    first_job_id=3,
    first_revision=12,
    first_node_id=None,
    last_run_id=9,
)


def test_every_kind_of_concern_has_words_and_a_place_to_look() -> None:
    params = {
        "count": 24, "run": 5, "seconds": 90, "usual": "20", "reason": "It broke.",
        "slots": 8, "waiting": "12",
    }  # fmt: skip

    def concern(kind: AlarmKind, **changes: object) -> Concern:
        known: dict[str, object] = {
            "kind": kind, "severity": Severity.ERROR, "template": "", "params": params,
        }  # fmt: skip
        return Concern(**{**known, **changes})  # type: ignore[arg-type]

    job = {"job_id": 3, "job_name": "close", "executor_id": 1, "executor_name": "billing"}
    executor = {"executor_id": 1, "executor_name": "billing"}
    wants_slot = Waiting(code="no_free_slot", template="", params={"slots": 8})
    starts = Waiting(code="starting", template="")
    again = {"original": 4, "run": 9}
    rate = {"failures": 7, "runs": 21, "succeeded": 14, "usual": 0.98, "seconds": 3600}
    by = {"by": "06:00", "zone": "Europe/Berlin"}
    lost = {"names": ["n1", "n2", "n3", "n4", "n5"], "runs": 12}
    rows = concern_rows(
        [
            concern(AlarmKind.FAILING_STREAK, run_id=9, **job),
            concern(AlarmKind.LAST_FAILED, run_id=9, **job | {"params": {"count": 1}}),
            concern(AlarmKind.RETRY_FAILED, run_id=9, **job | {"params": again}),
            concern(AlarmKind.FAILURE_RATE, run_id=9, **job | {"params": rate}),
            concern(AlarmKind.LOW_SUCCESS, since=70, params=rate),
            concern(AlarmKind.NODES_LOST, **executor | {"params": lost}),
            concern(AlarmKind.SLOW, run_id=5, **job),
            concern(AlarmKind.COVERAGE_GAP, trigger_id=4, **job | {"params": {"holes": 3}}),
            concern(AlarmKind.TRIGGER_ERROR, trigger_id=4, **job),
            concern(AlarmKind.DEADLINE_WARNING, **job | {"params": by | {"minutes": 25}}),
            concern(
                AlarmKind.DEADLINE_WARNING,
                **job | {"job_id": 4, "job_name": "open", "params": by},
            ),
            concern(AlarmKind.NO_NODES, **executor | {"params": {}}),
            concern(AlarmKind.FULL, **executor),
            concern(AlarmKind.LATE, run_id=7, why=wants_slot, **job),
            concern(AlarmKind.LATE, why=starts, run_id=8, executor_id=2, executor_name="crm"),
            concern(AlarmKind.LATE),
            concern(AlarmKind.DECLARED_WAITING, **executor | {"params": {"names": "a, b"}}),
            concern(AlarmKind.DECLARED_BROKEN, **executor | {"params": {"names": "c"}}),
            concern(
                AlarmKind.ADMIN_BEHIND,
                admin_id=2,
                admin_name="a2",
                params={"admin": "a2", "loop": Word("Recording results")},
            ),
            concern(AlarmKind.DATABASE_SLOW, template="It takes %(run)d ms."),
            concern(
                AlarmKind.FAILED,
                template="%(error)s: %(runs)d runs of %(jobs)d jobs",
                params={"error": "refused", "runs": 43, "jobs": 40},
                failure=FAILURE,
                **executor,
            ),
        ]
    )

    assert {kind.value for kind in _ICONS} == {row.key.split("-")[0] for row in rows}
    assert len({row.key for row in rows}) == len(rows)
    assert [(row.subject, row.text, row.href) for row in rows] == [
        ("close", "24+ failures in a row", "/jobs/3"),
        ("close", "Its last run failed", "/jobs/3"),
        ("close", "Run #4 was retried, and run #9 failed as well", "/runs/9"),
        ("close", "7 of the last 21 runs failed (usual: 98%)", "/jobs/3"),
        (
            "All runs",
            "66.67% of 21 runs of the last 1h 00m succeeded (usual: 98%)",
            "/runs?state=failed_any&from=70",
        ),
        ("billing", "Lost nodes: n1, n2, n3 +2 · lost runs: 12", "/executors/1"),
        ("close", "Run #5 has been running for 1m 30s; usual is 20 s", "/runs/5"),
        (
            "close",
            "Intervals of data that were not processed: 3",
            "/jobs/3/coverage?trigger=4",
        ),
        ("close", "A trigger does not fire: It broke.", "/jobs/3"),
        (
            "close",
            "Will probably miss its deadline at 06:00 (Europe/Berlin) by 25 min",
            "/night-plan?executor=1",
        ),
        (
            "open",
            "Will probably not have succeeded by 06:00 (Europe/Berlin)",
            "/night-plan?executor=1",
        ),
        ("billing", "It has jobs, but no live node", "/executors/1"),
        ("billing", "All 8 slots are taken; 12 runs wait", "/executors/1"),
        (
            "close",
            "Due runs that wait: 12 · All 8 slots are taken; it begins when one is free.",
            "/runs/7",
        ),
        ("crm", "Due runs that wait although slots are free: 12", "/runs/8"),
        ("Planning", "Triggers that are overdue: 24", "/admins"),
        (
            "billing",
            "Jobs declared in code that wait for a decision: a, b",
            "/executors/1/declared-jobs",
        ),
        (
            "billing",
            "Jobs declared in code that break a rule: c",
            "/executors/1/declared-jobs",
        ),
        ("a2", "“Recording results” fails", "/admins#h-admin-2"),
        ("Database", "It takes 5 ms.", "/admins"),
        ("billing", "refused: 43 runs of 40 jobs", "/alarms/failures/7"),
    ]
    assert [row.retries for row in rows][:4] == [9, 9, 9, None]


def test_every_loop_of_an_admin_has_words_in_every_language() -> None:
    loops = {
        each.__new__(each).name
        for each in Loop.__subclasses__()
        if each.__module__.startswith("tickwheel_admin.engine.")
    }
    assert {"planner", "recorder", "cleaner"} <= loops
    for name in loops:
        assert loop_label(name) != name
        assert translate("%(loop)s", {"loop": loop_label(name)}, CHINESE) != loop_label(name)


# --- the job form ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "raw"),
    [
        ("failover", {"nodes": ["a", "b*"]}),
        ("consistent_hash", {"hash_by": "customer"}),
        ("shards", {"shards": 4}),
        ("first", {}),
    ],
)
def test_fields_of_other_strategies_do_not_count(strategy: str, raw: dict[str, object]) -> None:
    sent = MultiDict(
        routing=strategy, nodes="a\r\n\r\n b* ", hash_by="customer", shards="4", selector=" gpu "
    )
    job, problems = draft_of_form(form_as_sent(sent), children=())
    assert problems == []

    told = {name: job[name] for name in ("nodes", "hash_by", "shards") if name in job}
    assert told == raw
    assert (job["routing"], job["selector"]) == (strategy, "gpu")


LENGTHS = {
    None: ("–", "–"),
    450: ("450 ms", "450 毫秒"),
    6_200: ("6.2 s", "6.2 秒"),
    42_000: ("42 s", "42 秒"),
    65_000: ("1m 05s", "1 分 5 秒"),
    3_900_000: ("1h 05m", "1 小时 5 分"),
    439_200_000: ("5d 2h", "5 天 2 小时"),
}


@pytest.mark.parametrize("ms", LENGTHS)
def test_lengths_are_said_in_the_readers_units(ms: int | None) -> None:
    told = []
    for language in ("en", CHINESE):
        REQUEST_LOCALE.set(RequestLocale(language=language, timezone="UTC", now_at=NOW))
        LANGUAGE.set(language)
        told.append(duration(ms))
    LANGUAGE.set("en")
    assert tuple(told) == LENGTHS[ms]


@pytest.mark.parametrize(
    ("elapsed", "progress", "left"),
    [
        (60_000, 0.25, 180_000),
        (60_000, None, None),  # its handler says nothing
        (60_000, 0.001, None),  # too little to go by
        (60_000, 1.0, None),
        (500, 0.5, None),
    ],
)
def test_the_end_of_a_run_is_estimated_by_its_progress(
    elapsed: int, progress: float | None, left: int | None
) -> None:
    run = Run(
        id=1,
        executor_id=1,
        job_id=1,
        job_revision=1,
        trigger_id=None,
        origin=Origin.API,
        scheduled_at=0,
        created_at=0,
        state=RunState.RUNNING,
        due_at=0,
        started_at=NOW - elapsed,
    )
    assert end_by_progress(run, progress, NOW) == (None if left is None else NOW + left)
    assert end_by_progress(structs.replace(run, shard_index=WORKFLOW), progress, NOW) is None


@pytest.mark.parametrize(
    ("message", "english", "chinese"),
    [
        ("2 of 3 shards failed.", "2 of 3 shards failed.", "3 个分片中有 2 个失败。"),
        ("Failed: load, mail.", "Failed: load, mail.", "失败的步骤：load, mail。"),
        (
            "Failed: a, b and 7 more.",
            "Failed: a, b and 7 more.",
            "失败的步骤：a, b 等，另有 7 个。",
        ),
        ("ValueError: 100 %s", "ValueError: 100 %s", "ValueError: 100 %s"),
        ("Failed: to connect. Why?", "Failed: to connect. Why?", "Failed: to connect. Why?"),
        ("", "", ""),
    ],
)
def test_what_an_admin_said_of_an_end_is_told_in_the_language_of_the_reader(
    message: str, english: str, chinese: str
) -> None:
    assert message_text(message) == english
    LANGUAGE.set(CHINESE)
    try:
        assert message_text(message) == chinese
    finally:
        LANGUAGE.set("en")


def test_a_failure_is_told_before_a_colon_without_its_full_stop() -> None:
    group = FailureGroup(
        id=7,
        executor_id=1,
        text="2 of 3 shards failed.",
        since=NOW,
        last_at=NOW,
        runs=4,
        jobs=2,
        first_run_id=1,
        first_job_id=1,
        first_revision=1,
        first_node_id=None,
        last_run_id=4,
    )
    concern = Concern(
        kind=AlarmKind.FAILED,
        severity=Severity.ERROR,
        template="%(error)s: %(runs)d runs of %(jobs)d jobs",
        params={"error": "2 of 3 shards failed", "runs": 4, "jobs": 2},
        failure=group,
    )
    [row] = concern_rows([concern])
    assert row.text == "2 of 3 shards failed: 4 runs of 2 jobs"


def test_a_stall_without_a_place_is_put_down_to_the_machine() -> None:
    stalled = Concern(
        kind=AlarmKind.ADMIN_BEHIND,
        severity=Severity.WARNING,
        template="",
        params={"stalled_ms": 141, "place": ""},
        admin_id=2,
        admin_name="a2",
    )
    [row] = concern_rows([stalled])
    assert row.text == ("Its event loop was blocked for 141 ms: its process got no processor time")
