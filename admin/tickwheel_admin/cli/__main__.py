"""`python -m tickwheel_admin.cli`: the command without its script."""

from __future__ import annotations

import sys

from tickwheel_admin.cli import main

if __name__ == "__main__":
    sys.exit(main())
