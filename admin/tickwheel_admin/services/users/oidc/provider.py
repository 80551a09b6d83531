"""The OpenID provider as this admin knows it: its addresses, its keys, and what it tells."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from yarl import URL

from tickwheel_admin.domain.users.oidc import OidcSettings, is_loopback
from tickwheel_admin.services.users.oidc.http import ProviderAway, ProviderUnusable, ask

KEPT_SECONDS = 3_600  # addresses and keys are asked for again after so long
KEYS_AGAIN_SECONDS = 10  # and keys at most so often for the sake of one that is unknown
AWAY_SECONDS = 2  # after a failure: those who waited meanwhile are told, and do not ask as well
MAX_KEYS = 100
_SIGNING_KEYS = ("RSA", "EC", "OKP")  # never a shared secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """What the provider publishes of itself (OpenID Connect Discovery 1.0)."""

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    scopes: frozenset[str]  # that it knows
    secret_in_form: bool  # it takes our secret in the form only, not as Basic authorization
    tells_issuer: bool  # it names itself in its answers (RFC 9207)


class CodeRefused(Exception):
    """The provider does not take the code: used before, too old, or not given to this browser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a code was good for."""

    id_token: str
    access_token: str | None


class OidcProvider:
    """Asks the provider; keeps what does not change."""

    def __init__(
        self, settings: OidcSettings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._now = monotonic
        self._lock = asyncio.Lock()  # of everything below: many logins ask once
        self._addresses: Addresses | None = None
        self._addresses_at = 0.0
        self._failure: ProviderAway | ProviderUnusable | None = None
        self._failed_at = 0.0
        self._keys: Sequence[Key] = ()
        self._keys_at: float | None = None

    async def addresses(self) -> Addresses:
        """Raises ProviderAway or ProviderUnusable."""
        async with self._lock:
            if self._addresses is None or self._now() - self._addresses_at > KEPT_SECONDS:
                if self._failure is not None and self._now() - self._failed_at < AWAY_SECONDS:
                    raise self._failure
                try:
                    self._addresses = await self._discover()
                except (ProviderAway, ProviderUnusable) as error:
                    self._failure, self._failed_at = error, self._now()
                    raise
                self._addresses_at = self._now()
            return self._addresses

    async def keys(self, *, wanted: Callable[[Key], bool]) -> list[Key]:
        """Its keys of a kind; asked for once more when there is none: keys are rotated.

        Raises:
            ProviderAway, ProviderUnusable.
        """
        url = (await self.addresses()).keys
        async with self._lock:
            age = None if self._keys_at is None else self._now() - self._keys_at
            found = [key for key in self._keys if wanted(key)]
            if age is None or age > (KEPT_SECONDS if found else KEYS_AGAIN_SECONDS):
                self._keys = await self._fetch_keys(url)
                self._keys_at = self._now()
                found = [key for key in self._keys if wanted(key)]
            return found

    async def redeem(self, code: str, *, verifier: str) -> Tokens:
        """Change a code for tokens, over a connection of our own to the provider.

        Raises:
            CodeRefused: the code is not good, or not any more.
            ProviderAway, ProviderUnusable.
        """
        addresses = await self.addresses()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._settings.redirect_url,
            "code_verifier": verifier,
        }
        headers = {}
        secret = self._settings.client_secret
        if secret is None or addresses.secret_in_form:
            form["client_id"] = self._settings.client_id
            if secret is not None:
                form["client_secret"] = secret
        else:
            # RFC 6749 §2.3.1: both are encoded as in a form before they are joined.
            joined = f"{quote_plus(self._settings.client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(joined.encode()).decode()}"
        answer = await ask(addresses.token, form=form, headers=headers)
        id_token = answer.content.get("id_token")
        if answer.status == 200 and isinstance(id_token, str):
            access_token = answer.content.get("access_token")
            return Tokens(
                id_token=id_token,
                access_token=access_token if isinstance(access_token, str) else None,
            )
        told = str(answer.content.get("error", ""))[:100]
        if told == "invalid_grant":
            raise CodeRefused
        raise ProviderUnusable(f"token endpoint: status {answer.status}, {told or 'no id_token'}")

    async def more_claims(self, access_token: str) -> Mapping[str, Any]:
        """What it tells of the person beside the token; empty when it tells nothing.

        Raises:
            ProviderAway, ProviderUnusable.
        """
        url = (await self.addresses()).userinfo
        if url is None:
            return {}
        answer = await ask(url, headers={"Authorization": f"Bearer {access_token}"})
        return answer.content if answer.status == 200 else {}

    async def _discover(self) -> Addresses:
        issuer = self._settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        answer = await ask(url)
        told = answer.content
        if answer.status != 200 or not told:
            raise ProviderUnusable(f"{url}: status {answer.status}, no JSON object of settings")
        if told.get("issuer") != issuer:
            raise ProviderUnusable(
                f"{url} says issuer {str(told.get('issuer'))[:200]!r}: oidc_issuer must be that"
            )
        userinfo = told.get("userinfo_endpoint")
        methods = told.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        scopes = told.get("scopes_supported", [])
        return Addresses(
            authorization=self._checked(told, "authorization_endpoint"),
            token=self._checked(told, "token_endpoint"),
            keys=self._checked(told, "jwks_uri"),
            userinfo=None if userinfo is None else self._checked(told, "userinfo_endpoint"),
            scopes=frozenset(each for each in scopes if isinstance(each, str))
            if isinstance(scopes, list)
            else frozenset(),
            secret_in_form=isinstance(methods, list)
            and "client_secret_post" in methods
            and "client_secret_basic" not in methods,
            tells_issuer=told.get("authorization_response_iss_parameter_supported") is True,
        )

    def _checked(self, told: Mapping[str, Any], name: str) -> str:
        """An address of the provider, as safe as the issuer's own."""
        try:
            url = URL(told.get(name, ""))
        except (TypeError, ValueError):
            url = URL()
        local = is_loopback(URL(self._settings.issuer).host) and is_loopback(url.host)
        if not url.host or not (url.scheme == "https" or (local and url.scheme == "http")):
            raise ProviderUnusable(f"{name} must be an https:// address")
        return str(url)

    async def _fetch_keys(self, url: str) -> list[Key]:
        answer = await ask(url)
        listed = answer.content.get("keys")
        if answer.status != 200 or not isinstance(listed, list):
            raise ProviderUnusable(f"{url}: status {answer.status}, no list of keys")
        keys = []
        for each in listed[:MAX_KEYS]:
            if not isinstance(each, dict) or each.get("kty") not in _SIGNING_KEYS:
                continue
            if each.get("use", "sig") != "sig":
                continue
            try:
                keys.append(JWKRegistry.import_key(each))
            except (JoseError, ValueError, TypeError, KeyError):
                continue  # of a kind or a shape that is not known here; others may do
        return keys
