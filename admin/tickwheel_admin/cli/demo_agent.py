"""The demo's agent: its executor, secret, jobs and configuration; made where missing."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE

AGENT_EXECUTOR = "machine"
AGENT_SECRET = "DEMO_API_KEY"  # noqa: S105 - its name

_SHELL = """\
#!/bin/sh
# A child sees its parameters as arguments and in its environment.
echo "::progress 0.2 looking at $1::"
df -P "$1"
used=$(df -P "$1" | awk 'NR == 2 { print $5 + 0 }')
echo "::progress 1 done::"
printf '{"used_percent": %d}' "$used" > "$TICKWHEEL_RESULT"
if [ "$used" -gt "${WARN_AT:-95}" ]; then
    echo "$1 is $used % full" >&2
    exit 1
fi
"""
_PYTHON = '''\
"""Counts words of some text, slowly: watch its log, or cancel it."""
import json
import os
import sys
import time

words = sys.stdin.read().split()
counts = {}
for number, word in enumerate(words, start=1):
    counts[word.lower()] = counts.get(word.lower(), 0) + 1
    print(f"::progress {number / len(words):.2f} {number} of {len(words)}::")
    print(f"{word}: {counts[word.lower()]}", flush=True)
    time.sleep(0.5)

with open(os.environ["TICKWHEEL_RESULT"], "w") as result:
    json.dump(counts, result)
'''


def jobs_of_agent(console: str) -> tuple[Mapping[str, Any], ...]:
    """One job of each kind that an agent runs; `console` is the admin's URL."""
    common = {"owner": "demo", "tags": ["example", "agent"]}
    return (
        {
            **common,
            "name": "disk-space",
            "description": "A shell script, kept with the job: open it, change it, try it.",
            "handler": "script",
            "script": {"language": "shell", "source": _SHELL, "remark": "first version"},
            "parameters": {"arguments": ["/"], "environment": {"WARN_AT": "99"}},
            "triggers": [{"kind": "fixed_rate", "every_seconds": 25}],
        },
        {
            **common,
            "name": "count-words",
            "description": "A Python script that reads its input and reports progress.",
            "handler": "script",
            "script": {"language": "python", "source": _PYTHON, "remark": "first version"},
            "parameters": {"stdin": "the quick brown fox jumps over the lazy dog and the cat"},
            "timeout_seconds": 60,
            "triggers": [{"kind": "fixed_rate", "every_seconds": 50}],
        },
        {
            **common,
            "name": "kernel",
            "description": "A command: a program and its arguments, without any shell.",
            "handler": "command",
            "parameters": {"argv": ["/bin/uname", "-a"]},
            "triggers": [{"kind": "fixed_rate", "every_seconds": 20}],
        },
        {
            **common,
            "name": "ping-console",
            "description": "An HTTP call with a secret in a header; nobody can read it here.",
            "handler": "http",
            "parameters": {
                "url": f"{console}/healthz",
                "headers": {"X-Demo-Key": f"${{secret.{AGENT_SECRET}}}"},
                "result": "text",
            },
            "retries": 2,
            "retry_delay_seconds": 5,
            "triggers": [{"kind": "fixed_rate", "every_seconds": 15}],
        },
        {
            **common,
            "name": "monthly-sales",
            "description": "SQL on a database that only the agent knows how to reach.",
            "handler": "sql",
            "parameters": {
                "connection": "shop",
                "statements": [
                    "CREATE TABLE IF NOT EXISTS sale (month TEXT, amount INTEGER)",
                    "INSERT INTO sale VALUES (:month, abs(random()) % 1000)",
                    "SELECT month, count(*) AS sales, sum(amount) AS sum FROM sale GROUP BY month",
                ],
                "values": {"month": "2026-11"},
            },
            "triggers": [{"kind": "fixed_rate", "every_seconds": 30}],
        },
        {
            **common,
            "name": "old-exports",
            "description": "Housekeeping: files below a folder that the agent knows by name.",
            "handler": "file",
            "parameters": {
                "action": "archive",
                "root": "exports",
                "glob": "*.csv",
                "older_than": "7d",
                "to": "old/{date}-{run}.tar.gz",
                "remove_originals": True,
            },
            "triggers": [{"kind": "fixed_rate", "every_seconds": 35}],
        },
    )


async def fill_agent(services: Services, console: str) -> str | None:
    """Make what is missing; the agent's token. None: somebody uses the name for his executor.

    The token is another one at each start, so that it is kept nowhere.
    """
    for item in await services.executors.list(COMMAND_LINE):
        if item.name == AGENT_EXECUTOR:
            known = await services.secrets.list(COMMAND_LINE, item.id)
            if all(each.name != AGENT_SECRET for each in known):
                return None
            return (await services.executors.rotate_token(COMMAND_LINE, item.id)).token
    new = await services.executors.create(
        COMMAND_LINE,
        name=AGENT_EXECUTOR,
        description="An agent: scripts, commands, HTTP calls, SQL and housekeeping on its machine.",
    )
    await services.secrets.put(COMMAND_LINE, new.id, AGENT_SECRET, secrets.token_urlsafe(24))
    for raw in jobs_of_agent(console):
        await services.jobs.create(COMMAND_LINE, new.id, raw)
    return new.token


def _leave_old_files(folder: Path) -> None:
    """Exports of the last weeks, which the job `old-exports` clears up."""
    folder.mkdir(exist_ok=True)
    for days in (2, 9, 16):
        file = folder / f"orders-{days:02}.csv"
        if not file.exists():
            file.write_text("order,amount\n1,10\n", encoding="utf-8")
            changed_at = time.time() - days * 86_400
            os.utime(file, (changed_at, changed_at))


def write_agent_config(directory: Path, *, console: str) -> Path:
    """The agent's configuration file: what may run on this machine."""
    work = directory / "agent"
    work.mkdir(exist_ok=True)
    file = directory / "agent.toml"
    shop = f"sqlite:///{work / 'shop.db'}"
    _leave_old_files(work / "exports")
    languages = ["shell", "python", *(each for each in ("node", "perl") if shutil.which(each))]
    file.write_text(
        f"""\
# What the demo's agent offers. A section that is missing offers nothing.
[agent]
admins = [{json.dumps(console)}]
executor = {json.dumps(AGENT_EXECUTOR)}
name = "agent-1"
slots = 4
spool_dir = {json.dumps(str(work / "spool"))}

[script]
languages = {json.dumps(languages)}

[command]
programs = ["/bin/uname", "/bin/date", "/usr/bin/uptime"]

[http]
private = [{json.dumps(console.partition("//")[2].partition(":")[0])}]

[sql.connections.shop]
url = {json.dumps(shop)}

[file.roots]
exports = {json.dumps(str(work / "exports"))}
""",
        encoding="utf-8",
    )
    os.chmod(file, 0o600)
    return file
