"""Logging in at the OpenID provider: the authorization code flow, with PKCE."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import structlog
from yarl import URL

from tickwheel_admin.domain.errors import NotLoggedIn, TooMany, Unavailable
from tickwheel_admin.domain.users.oidc import OidcSettings, claim_at
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.users.logins import Logins, NewSession
from tickwheel_admin.services.users.oidc.attempt import LoginAttempt, attempt_of_cookie, new_attempt
from tickwheel_admin.services.users.oidc.http import ProviderAway, ProviderUnusable
from tickwheel_admin.services.users.oidc.provider import CodeRefused, OidcProvider
from tickwheel_admin.services.users.oidc.tokens import TokenRefused, check_id_token
from tickwheel_admin.services.users.oidc.users import OidcUsers
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids

log = structlog.get_logger(__name__)

MAX_CODE_CHARS = 4_000
MAX_AT_ONCE = 50  # answers that are checked with the provider; whoever floods us does not flood it
_SCOPES = ("openid", "profile", "email")


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
        logins: Logins,
        settings: OidcSettings,
        *,
        provider: OidcProvider | None = None,
    ) -> None:
        self._store = store
        self._logins = logins
        self._users = OidcUsers(store, ids, events, settings)
        self._settings = settings
        self._provider = provider or OidcProvider(settings)
        self._places = MAX_AT_ONCE

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
            NotAllowed: oidc.no_role, oidc.no_group, oidc.no_name.
            Conflict: oidc.name_taken.
            TooMany: login.busy.
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
        claims = await self._proven(answer, attempt, now=now)
        user = await self._users.of_claims(claims)
        session = await self._logins.begin_session(
            user,
            address=address,
            user_agent=user_agent,
            replaces=replaces,
            detail={"provider": self._settings.issuer},
        )
        return Finished(session=session, next_page=attempt.next_page)

    # --- what the provider says ------------------------------------------------------------------

    async def _proven(
        self, answer: Mapping[str, str], attempt: LoginAttempt, *, now: int
    ) -> dict[str, Any]:
        """What the provider says of the person; whatever goes wrong is told to that person."""
        if self._places <= 0:
            raise TooMany(
                "login.busy",
                "Too many people are logging in at once; try again in a moment.",
                retry_after_seconds=2,
            )
        self._places -= 1
        try:
            return await self._claims(answer, attempt, now=now)
        except (ProviderAway, ProviderUnusable) as error:
            raise self._unavailable(error) from error
        except CodeRefused:
            raise NotLoggedIn(
                "oidc.code", "This login was used already or took too long. Begin again."
            ) from None
        except TokenRefused as error:
            log.error("oidc.token_refused", cause=str(error))
            raise NotLoggedIn(
                "oidc.token",
                "What %(provider)s said of you cannot be trusted, so nobody was logged in.",
                provider=self._settings.name,
            ) from None
        finally:
            self._places += 1

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
