"""Imported once by the process that others are forked from: what each would do at its start."""

from __future__ import annotations

import asyncio
import gc
from unittest.mock import patch

import tickwheel_admin.cli.commands
import tickwheel_admin.store.migrations.steps  # noqa: F401
from tickwheel_admin.console.frame import rendering
from tickwheel_admin.console.frame.assets import Assets
from tickwheel_admin.console.templating import new_renderer

with patch.object(rendering, "COMPILE_PAUSE_SECONDS", 0):
    asyncio.run(new_renderer(Assets()).compile_all())
gc.freeze()  # else each fork would copy the pages of all these objects
