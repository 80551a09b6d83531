"""Settings of the installation: everybody's pages follow them, its admins change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.settings import (
    InstallationSettings,
    parse_settings,
    settings_to_raw,
)
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.system.settings import read_settings, replace_settings


class Settings:
    """Use cases of the installation's settings."""

    def __init__(self, store: Store, ids: Ids) -> None:
        self._store = store
        self._audited = AuditedTransactions(store, ids)
        self._known = InstallationSettings()

    @property
    def known(self) -> InstallationSettings:
        """As this process read them last, for what cannot wait for the database."""
        return self._known

    async def get(self) -> InstallationSettings:
        """As they are now, also when another admin changed them a moment ago."""
        self._known = await self._store.read(read_settings)
        return self._known

    async def save(self, actor: Actor, values: Mapping[str, Any]) -> None:
        """Replace all settings; what is not named goes back to its default.

        Raises:
            InvalidInput: with every problem found.
        """
        actor.require(Permission.ADMINISTER)
        settings = parse_settings(values)

        def save(conn: sa.Connection, entry: AuditEntry) -> None:
            changes = _changes(replace_settings(conn, settings), settings)
            if changes:
                entry.write("settings.updated", changes=changes)

        await self._audited.run(actor, save)
        self._known = settings


def _changes(before: InstallationSettings, after: InstallationSettings) -> dict[str, Any]:
    old, new = settings_to_raw(before), settings_to_raw(after)
    return {
        name: {"before": old[name], "after": new[name]} for name in new if new[name] != old[name]
    }
