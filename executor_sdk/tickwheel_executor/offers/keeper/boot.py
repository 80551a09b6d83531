"""Entry point of the keeper, run as a file: `python -I -S boot.py FILE DIRECTORY CGROUP`.

It does not import the package `tickwheel_executor`, which would take forty megabytes and half a
second, but registers this directory as a small package of its own.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType


def main() -> None:
    """Run the keeper on the socket with this file number."""
    package = ModuleType("tickwheel_keeper")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules[package.__name__] = package
    keeper = importlib.import_module("tickwheel_keeper.keeper")
    file, directory, cgroup = sys.argv[1:]
    keeper.Keeper(int(file), directory, cgroup).run()


if __name__ == "__main__":
    main()
