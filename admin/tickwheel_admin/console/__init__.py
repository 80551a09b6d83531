"""The web console: pages, their templates and static files."""

from __future__ import annotations

from tickwheel_admin.console.app import add_console as add_console
