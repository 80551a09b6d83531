"""A crontab that is imported runs on a real agent, with what its lines say about their commands."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.e2e.cluster import EXECUTOR, Cluster
from tests.e2e.test_main_job import log_of

CRONTAB = """\
PATH={tools}:/usr/bin:/bin
GREETING="good morning"
MAILTO=ops@example.com
# What its parts are.
0 3 * * * greet; echo "$GREETING"; cat%first line%second \\% line
HOME={home}
SHELL=/bin/bash
0 4 * * * pwd; [[ $GREETING == good* ]] && echo "$0 $HOME ${{BASH_VERSION:+is bash}}"; \
printf '{{"percent": "5\\%\\%"}}' > "$TICKWHEEL_RESULT"
0 5 * * * echo on its way >&2; exit 75
"""


def test_a_crontab_runs_on_an_agent(sqlite_url: str, tmp_path: Path) -> None:
    tools, home = tmp_path / "tools", tmp_path / "home"
    tools.mkdir()
    home.mkdir()
    (tools / "greet").write_text("#!/bin/sh\necho greeted by $PATH\n")
    (tools / "greet").chmod(0o755)
    crontab = tmp_path / "crontab"
    crontab.write_text(CRONTAB.format(tools=tools, home=home))
    with Cluster(tmp_path, sqlite_url) as cluster:
        cluster.start_admin()
        cluster.add_executor()
        cluster.start_agent('[script]\nlanguages = ["shell"]\n')
        api = cluster.api()
        imported = json.loads(
            cluster.command(
                *("import", "crontab", str(crontab), "--user", "--executor", EXECUTOR),
                *("--timezone", "Europe/Berlin", "--apply", "--format", "json"),
            )
        )
        assert imported["counts"]["jobs"]["created"] == 3, imported
        names = [each["name"] for each in imported["jobs"]]
        there = {each["config"]["name"]: each for each in api.get("/jobs")["items"]}
        assert all(there[name]["paused"] for name in names)

        def lines(name: str, state: str) -> tuple[list[str], dict[str, object]]:
            run_id = cluster.run_job(there[name]["id"])
            run = cluster.wait_for_run(run_id, state, timeout_seconds=60)
            return [line["text"] for line in log_of(cluster, run_id)], run

        first, second, third = names
        said, _ = lines(first, "succeeded")
        path = f"{tools}:/usr/bin:/bin"
        assert said == [f"greeted by {path}", "good morning", "first line", "second % line"]
        said, run = lines(second, "succeeded")
        assert said == [str(home), f"/bin/bash {home} is bash"]
        assert run["result"] == {"percent": "5%"}
        said, run = lines(third, "failed")
        assert said[0] == "on its way"
        assert "75" in str(run["message"])
    assert os.listdir(home) == []
