"""The engine against what Quartz, Spring, croniter and Cronos do: see data/README.md."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

import pytest

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron import Cron, parse_cron
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.zones import zone_of

_ROWS = list(
    csv.DictReader((Path(__file__).parent / "data/cron_vectors.csv").read_text().splitlines())
)
_ACCEPTED = [row for row in _ROWS if row["ours"] == "accept"]
_OTHERS = [row for row in _ROWS if row["ours"] != "accept"]


def _cron(row: dict[str, str], *, gap: Gap = Gap.FIRE) -> Cron:
    dialect = Dialect.SPRING if row["dialect"] == "cronos" else Dialect(row["dialect"])
    return Cron(parse_cron(row["expression"], dialect), zone_of(row["tz"]), gap=gap)


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


@pytest.mark.parametrize("row", _ACCEPTED, ids=[f"{row['id']}-{row['kind']}" for row in _ACCEPTED])
def test_vector(row: dict[str, str]) -> None:
    match row["kind"]:
        case "next":
            cron, start, expected = _cron(row), _ms(row["from"]), _ms(row["expected"])
            assert cron.next_after(start) == expected
            assert cron.last_before(expected + 1) == expected
            assert (cron.last_before(expected) or 0) <= start
        case "nomatch":
            start = _ms(row["from"])
            assert _cron(row).next_after(start - 1) != start
            assert _cron(row).last_before(start + 1) != start
        case "null":
            if row["dialect"] == "quartz":  # its years are over
                assert _cron(row).next_after(_ms(row["from"])) is None
            else:  # it never fires at all
                with pytest.raises(ScheduleError, match="never fires"):
                    _cron(row)
        case "valid":
            assert _cron(row).next_after(0) is not None
        case "invalid":
            with pytest.raises(ScheduleError):
                _cron(row)
        case kind:
            pytest.fail(f"a kind that is not known: {kind}")


def test_every_other_row_is_one_of_the_decisions_below() -> None:
    decided = {row["id"] for row in _OTHERS}
    assert decided == {"48", "92", "106", "224", "225", "226", "228", "365"}


def test_a_month_whose_31st_is_a_sunday_has_its_nearest_weekday_on_the_29th() -> None:
    row = next(row for row in _OTHERS if row["id"] == "48")
    assert _cron(row).next_after(_ms(row["from"])) == _ms("2020-05-29T00:00:00+00:00")


@pytest.mark.parametrize("number", ["92", "106"])
def test_the_gap_fires_unless_it_is_to_be_skipped(number: str) -> None:
    row = next(row for row in _OTHERS if row["id"] == number)
    end_of_gap = _ms("2025-04-25T01:00:00+03:00")
    assert _cron(row).next_after(end_of_gap - 1) == end_of_gap
    assert _cron(row, gap=Gap.SKIP).next_after(_ms(row["from"])) == _ms(row["expected"])


def test_an_hourly_expression_gets_no_fire_for_the_gap() -> None:
    row = next(row for row in _OTHERS if row["id"] == "365")
    assert _cron(row).next_after(_ms(row["from"])) == _ms("2016-03-13T03:30:00-04:00")


@pytest.mark.parametrize(
    ("lenient", "strict"),
    [
        ("0 0 * * * *", "0 0 * * * ?"),
        ("0 0 * 4 * *", "0 0 * 4 * ?"),
        ("0 0 * * * 4", "0 0 * ? * 4"),
        ("0 43 9 ? * 6,7,L", "0 43 9 ? * FRI,SAT"),
    ],
)
def test_a_star_beside_a_day_is_read_as_a_question_mark_in_quartz(
    lenient: str, strict: str
) -> None:
    ours, theirs = (
        Cron(parse_cron(text, Dialect.QUARTZ), zone_of("UTC"), overlap=Overlap.AUTO)
        for text in (lenient, strict)
    )
    at: int | None = _ms("2026-01-01T00:00:00+00:00")
    for _ in range(100):
        assert at is not None
        assert ours.next_after(at) == theirs.next_after(at)
        at = ours.next_after(at)
