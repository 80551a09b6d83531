"""Logging in at the OpenID provider: authorization code flow with PKCE (OpenID Connect Core 1.0).

A person is found by issuer and subject, and made at the first login. Names are only labels: that of
somebody who is here already is never taken over.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import sqlalchemy as sa
import structlog
from yarl import URL

from tickwheel_admin.domain.errors import Conflict, NotAllowed, NotLoggedIn, Unavailable
from tickwheel_admin.domain.oidc import (
    OidcSettings,
    claim_at,
    grants_of_groups,
    groups_of,
    oidc_key,
    user_name_of,
)
from tickwheel_admin.domain.user import ALL_EXECUTORS, Actor, Grant
from tickwheel_admin.services import people_edits
from tickwheel_admin.services.events import PEOPLE, Events
from tickwheel_admin.services.oidc_attempt import LoginAttempt, attempt_of_cookie, new_attempt
from tickwheel_admin.services.oidc_http import ProviderAway, ProviderUnusable
from tickwheel_admin.services.oidc_provider import CodeRefused, OidcProvider
from tickwheel_admin.services.oidc_tokens import TokenRefused, check_id_token
from tickwheel_admin.services.people import NewSession, People
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.database import Store
from tickwheel_admin.store.grants import grants_of
from tickwheel_admin.store.ids import Ids
from tickwheel_admin.store.oidc_people import executor_ids, find_oidc_user
from tickwheel_admin.store.users import StoredUser

log = structlog.get_logger(__name__)

MAX_CODE_CHARS = 4_000
_SCOPES = ("openid", "profile", "email")

Grants = Mapping[int, Grant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Where to send the browser, and what it keeps meanwhile."""

    url: str
    cookie: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Somebody is in."""

    session: NewSession
    next_page: str  # as the browser said: not to be followed unchecked


class OidcLogin:
    """The use case of logging in at the provider."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        events: Events,
        people: People,
        settings: OidcSettings,
        *,
        provider: OidcProvider | None = None,
    ) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._people = people
        self._settings = settings
        self._provider = provider or OidcProvider(settings)

    async def begin(self, next_page: str) -> Begun:
        """A login that the provider goes on with.

        Raises:
            Unavailable: oidc.away, oidc.unusable.
        """
        try:
            addresses = await self._provider.addresses()
        except (ProviderAway, ProviderUnusable) as error:
            raise self._unavailable(error) from error
        attempt = new_attempt(now=await self._store.read(now_ms), next_page=next_page)
        wanted = (*_SCOPES, self._settings.roles_claim) if self._settings.roles else _SCOPES
        # A provider that does not know a scope may refuse; one that lists none knows the usual.
        known = addresses.scopes or frozenset(_SCOPES)
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._settings.redirect_url,
            "scope": " ".join(each for each in wanted if each == "openid" or each in known),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        url = URL(addresses.authorization).update_query(query)
        return Begun(url=str(url), cookie=attempt.to_cookie())

    async def finish(
        self,
        answer: Mapping[str, str],
        *,
        cookie: str,
        address: str,
        user_agent: str,
        replaces: str,
    ) -> Finished:
        """Let somebody in whom the provider knows.

        Args:
            answer: what the provider sent the browser back with.
            cookie: what the browser kept.
            replaces: the session cookie that came along; its session ends.

        Raises:
            NotLoggedIn: oidc.not_begun, oidc.refused, oidc.code, oidc.token, oidc.disabled.
            NotAllowed: oidc.no_role, oidc.no_name.
            Conflict: oidc.name_taken.
            Unavailable: oidc.away, oidc.unusable.
        """
        now = await self._store.read(now_ms)
        attempt = attempt_of_cookie(cookie)
        if (
            attempt is None
            or not attempt.is_answered_by(answer.get("state", ""))
            or not attempt.holds(now)
        ):
            raise NotLoggedIn(
                "oidc.not_begun",
                "This login was begun in another browser or too long ago. Begin again here.",
            )
        try:
            claims = await self._claims(answer, attempt, now=now)
        except (ProviderAway, ProviderUnusable) as error:
            raise self._unavailable(error) from error
        except CodeRefused:
            raise NotLoggedIn(
                "oidc.code", "This login was used already or took too long. Begin again."
            ) from None
        except TokenRefused as error:
            log.error("oidc.token_refused", cause=str(error), address=address)
            raise NotLoggedIn(
                "oidc.token",
                "What %(provider)s said of you cannot be trusted, so nobody was logged in.",
                provider=self._settings.name,
            ) from None
        user = await self._person(claims)
        session = await self._people.begin_session(
            user,
            address=address,
            user_agent=user_agent,
            replaces=replaces,
            detail={"by": "oidc", "issuer": self._settings.issuer},
        )
        return Finished(session=session, next_page=attempt.next_page)

    # --- what the provider says ------------------------------------------------------------------

    async def _claims(
        self, answer: Mapping[str, str], attempt: LoginAttempt, *, now: int
    ) -> dict[str, Any]:
        """Everything the provider says of the person, checked."""
        addresses = await self._provider.addresses()
        issuer = answer.get("iss", "" if addresses.tells_issuer else self._settings.issuer)
        if not hmac.compare_digest(issuer.encode("utf-8", "replace"), self._issuer_bytes):
            raise TokenRefused("the answer names another issuer")
        if "error" in answer or not 0 < len(answer.get("code", "")) <= MAX_CODE_CHARS:
            self._raise_refusal(answer)
        tokens = await self._provider.redeem(answer["code"], verifier=attempt.verifier)
        claims = await check_id_token(
            tokens.id_token,
            self._provider,
            self._settings,
            nonce=attempt.nonce,
            begun_at=attempt.begun_at,
            now=now,
        )
        wanted = [self._settings.username_claim]
        if self._settings.roles:
            wanted.append(self._settings.roles_claim)
        if tokens.access_token and any(claim_at(claims, each) is None for each in wanted):
            # Some keep tokens small and tell the rest when asked. Not signed, so second to it.
            more = await self._provider.more_claims(tokens.access_token)
            if more.get("sub") == claims["sub"]:
                claims = {**more, **claims}
        return claims

    @property
    def _issuer_bytes(self) -> bytes:
        return self._settings.issuer.encode()

    def _raise_refusal(self, answer: Mapping[str, str]) -> NoReturn:
        """Tell in our words what the provider refused; theirs go to the log only."""
        log.warning(
            "oidc.refused",
            error=answer.get("error", "")[:100],
            description=answer.get("error_description", "")[:300],
        )
        raise NotLoggedIn(
            "oidc.refused",
            "%(provider)s did not let you in, or you turned back there.",
            provider=self._settings.name,
        )

    # --- who that is here ------------------------------------------------------------------------

    async def _person(self, claims: Mapping[str, Any]) -> StoredUser:
        """The person with the grants that hold from now on."""
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
            if people_edits.create_user(
                conn, new, grants or {}, actor=self._actor, audit_id=audit_id
            ):
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
        audit_id = await self._ids.take("audit")
        try:
            await self._store.run(
                people_edits.set_grants, user.id, grants, actor=self._actor, audit_id=audit_id
            )
        except Conflict as error:
            if error.code != "user.last_admin":
                raise
            # Somebody who administers everything is always left, whatever the provider says.
            log.warning("oidc.last_admin_kept", user=user.name)
            return
        self._events.publish(PEOPLE)

    @property
    def _actor(self) -> Actor:
        """Whom the audit names for what follows from the provider's word."""
        return Actor(user_id=0, name=self._settings.name, grants={})

    def _unavailable(self, error: ProviderAway | ProviderUnusable) -> Unavailable:
        log.error("oidc.failed", cause=str(error))
        if isinstance(error, ProviderAway):
            return Unavailable(
                "oidc.away",
                "%(provider)s does not answer; try again in a moment.",
                provider=self._settings.name,
            )
        return Unavailable(
            "oidc.unusable",
            "Tickwheel and %(provider)s do not understand each other; tell whoever looks after"
            " them.",
            provider=self._settings.name,
        )
