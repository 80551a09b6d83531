"""What the start of a command imports, which is most of the time that it takes."""

from __future__ import annotations

import subprocess
import sys

from tickwheel_admin.cli.client.commands import GROUPS as MODULES

# Those of `gitops` read YAML, and `mcp` stays for hours.
GROUPS = [group for group, module in MODULES.items() if module not in ("gitops", "mcp")]

_PROGRAM = """
import sys
from tickwheel_admin.cli import main

print(main(["--version"]))
for group in sys.argv[1:]:
    try:
        main([group, "--help"])
    except SystemExit:
        pass
heavy = {"aiohttp", "asyncio", "sqlalchemy", "cryptography", "jinja2", "yaml", "structlog"}
print("imported:", sorted(heavy & set(sys.modules)))
"""


def test_commands_with_a_server_import_nothing_of_the_server() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *GROUPS],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "imported: []"
    assert all(f"usage: tickwheel {group}" in done.stdout for group in GROUPS)
