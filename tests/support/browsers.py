"""Finding the Chromium of the system: Playwright's own download is not needed."""

from __future__ import annotations

import os
import shutil

NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)

STABLE_PICTURE_FLAGS = (
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # /dev/shm is tiny in containers
)


def find_chromium() -> str | None:
    """The path in CHROMIUM, else the first browser in PATH of which we know that it works."""
    if named := os.environ.get("CHROMIUM"):
        return shutil.which(named)
    return next((found for name in NAMES if (found := shutil.which(name))), None)
