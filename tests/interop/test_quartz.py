"""Quartz writes its tables into MariaDB; what is imported fires as Quartz says it would."""

from __future__ import annotations

from tests.interop.quartz_tables import NEWEST, fill_tables
from tests.support.quartz.compare import differing_triggers, read_quartz

# 2.5.0 leaves months out for LW, L-3 and 15W; 2.3.2, which wrote the recorded tables, does not.
BROKEN_IN_QUARTZ = ("cron.cron-12", "cron.cron-13", "cron.cron-14")


def test_what_is_imported_fires_as_in_the_newest_quartz(mariadb_url: str) -> None:
    fires = fill_tables(mariadb_url, NEWEST)
    assert len(fires) > 60
    assert differing_triggers(read_quartz(mariadb_url), fires, known=BROKEN_IN_QUARTZ) == []
