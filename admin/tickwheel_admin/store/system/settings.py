"""The settings of the installation: one JSON value."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.settings import (
    InstallationSettings,
    settings_from_json,
    settings_to_json,
)
from tickwheel_admin.store.database.tables import setting

INSTALLATION = "installation"  # name of the setting

# Made once: every page asks for it.
_VALUE = sa.select(setting.c.value).where(setting.c.name == INSTALLATION)


def read_settings(conn: sa.Connection) -> InstallationSettings:
    """What holds now. One look-up."""
    return settings_from_json(conn.execute(_VALUE).scalar_one_or_none())


def replace_settings(conn: sa.Connection, settings: InstallationSettings) -> InstallationSettings:
    """Store settings; returns those before.

    Of two first ones at once, one insert fails, and its transaction is repeated.
    """
    before = conn.execute(_VALUE.with_for_update()).scalar_one_or_none()
    value = settings_to_json(settings)
    if before is None:
        conn.execute(sa.insert(setting).values(name=INSTALLATION, value=value))
    else:
        conn.execute(sa.update(setting).where(setting.c.name == INSTALLATION).values(value=value))
    return settings_from_json(before)
