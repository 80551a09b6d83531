"""Who somebody of the OpenID provider is here.

People are found by issuer and subject, and made at their first login. Names are only labels:
that of somebody who is here already is never taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.errors import Conflict, NotAllowed, NotLoggedIn
from tickwheel_admin.domain.users.oidc import (
    OidcSettings,
    grants_of_groups,
    groups_of,
    oidc_key,
    user_name_of,
)
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Grant
from tickwheel_admin.services.events.events import USERS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.users import edits
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import executor_ids
from tickwheel_admin.store.users.grants import grants_of
from tickwheel_admin.store.users.users import StoredUser, find_oidc_user

log = structlog.get_logger(__name__)

Grants = Mapping[int, Grant]


class OidcUsers:
    """The users of the provider."""

    def __init__(self, store: Store, ids: Ids, events: Events, settings: OidcSettings) -> None:
        self._store = store
        self._ids = ids
        self._audited = AuditedTransactions(store, ids, events)
        self._settings = settings

    async def of_claims(self, claims: Mapping[str, Any]) -> StoredUser:
        """The person, with the grants that hold from now on.

        Raises:
            NotLoggedIn: oidc.disabled.
            NotAllowed: oidc.no_role, oidc.no_group, oidc.no_name.
            Conflict: oidc.name_taken.
        """
        key = oidc_key(self._settings.issuer, claims["sub"])
        grants = await self._grants(claims)
        user = await self._store.read(find_oidc_user, key)
        if user is None:
            user = await self._enrol(key, claims, grants)
        if user.disabled:
            raise NotLoggedIn(
                "oidc.disabled", "You are shut out of Tickwheel; an administrator can let you in."
            )
        if grants is not None:
            await self._give(user, grants)
        if not await self._store.read(grants_of, user.id):
            raise NotAllowed(
                "oidc.no_role",
                "%(provider)s knows you as %(name)s, but you have no role here yet."
                " Ask an administrator for one.",
                provider=self._settings.name,
                name=user.name,
            )
        return user

    async def _grants(self, claims: Mapping[str, Any]) -> Grants | None:
        """What the groups give; None when people give roles here."""
        if not self._settings.roles:
            return None
        by_name = grants_of_groups(
            groups_of(claims, self._settings.roles_claim), self._settings.roles
        )
        names = {name for name in by_name if name is not None}
        known = await self._store.read(executor_ids, names)
        if names - known.keys():
            log.warning("oidc.unknown_executors", names=sorted(names - known.keys()))
        return {
            ALL_EXECUTORS if name is None else known[name]: grant
            for name, grant in by_name.items()
            if name is None or name in known
        }

    async def _enrol(
        self, key: str, claims: Mapping[str, Any], grants: Grants | None
    ) -> StoredUser:
        """Make the person of a first login; nobody is made who has no role anyway."""
        name = user_name_of(claims, self._settings.username_claim)
        if name is None:
            raise NotAllowed(
                "oidc.no_name",
                "%(provider)s does not say what you are called, in the claim %(claim)s.",
                provider=self._settings.name,
                claim=self._settings.username_claim,
            )
        if grants is not None and not grants:
            raise NotAllowed(
                "oidc.no_group",
                "%(provider)s knows you as %(name)s, but none of your groups has a role here.",
                provider=self._settings.name,
                name=name,
            )
        user_id, audit_id = await self._ids.take("user"), await self._ids.take("audit")

        def enrol(conn: sa.Connection) -> StoredUser:
            found = find_oidc_user(conn, key)  # perhaps by another tab, at another admin
            if found is not None:
                return found
            new = StoredUser(
                id=user_id,
                name=name,
                password_hash=None,
                must_change_password=False,
                disabled=False,
                oidc_key=key,
                created_at=now_ms(conn),
            )
            entry = AuditEntry(conn, audit_id, self._actor)
            if edits.create_user(conn, entry, new, grants or {}):
                return new
            raise Conflict(
                "oidc.name_taken",
                "%(provider)s calls you %(name)s, and somebody else is called that here."
                " Ask an administrator.",
                provider=self._settings.name,
                name=name,
            )

        return await self._store.run(enrol)

    async def _give(self, user: StoredUser, grants: Grants) -> None:
        """Let the person have these grants and no others; what is taken away ends sessions."""
        if await self._store.read(grants_of, user.id) == dict(grants):
            return
        work = partial(edits.set_grants, user_id=user.id, grants=grants)
        try:
            await self._audited.run(self._actor, work, USERS)
        except Conflict as error:
            if error.code != "user.last_admin":
                raise
            # Somebody who administers everything is always left, whatever the provider says.
            log.warning("oidc.last_admin_kept", user=user.name)

    @property
    def _actor(self) -> Actor:
        """Whom the audit names for what follows from the provider's word."""
        return Actor(user_id=0, name=self._settings.name, grants={})
