"""`python -m tickwheel_executor describe module:app`: what a service's handlers take, as JSON."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
from typing import Any

from .executor import Executor

_UNUSED = {
    "TICKWHEEL_EXECUTOR": "described",
    "TICKWHEEL_ADMINS": "http://127.0.0.1:1",
    "TICKWHEEL_TOKEN": "described" * 5,
}
_EXAMPLES = """\
examples:
  python -m tickwheel_executor describe billing.jobs:executor > handlers.json
  tickwheel check-handlers handlers.json --executor billing
"""


def main() -> int:
    """Print it; nothing connects anywhere."""
    parser = argparse.ArgumentParser(
        prog="python -m tickwheel_executor",
        description="Print the handlers of a service and the JSON Schemas of their parameters.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=["describe"])
    parser.add_argument("app", help="module and name of its Executor: billing.jobs:executor")
    args = parser.parse_args()
    for setting, value in _UNUSED.items():  # none is needed where nothing connects
        os.environ.setdefault(setting, value)
    module, _, name = args.app.partition(":")
    sys.path.insert(0, os.getcwd())
    name = name or "executor"
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what modules print is no part of the JSON
            found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # one that the service itself imports; the trace says where
        sys.stderr.write(f"No module named {error.name!r} in {os.getcwd()}, or installed.\n")
        return 2
    if not isinstance(found, Executor):
        sys.stderr.write(f"{module} has no Executor that is called {name}.\n")
        return 2
    json.dump(description(found), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")
    return 0


def description(executor: Executor) -> dict[str, Any]:
    """Its handlers with the schemas of their parameters; null: it takes whatever it is given.

    No handler can be added after that.
    """
    handlers = executor.handlers
    handlers.close()
    return {
        "handlers": {
            name: json.loads(bytes(handlers.schemas[name])) if name in handlers.schemas else None
            for name in sorted(handlers)
        }
    }


if __name__ == "__main__":
    sys.exit(main())
