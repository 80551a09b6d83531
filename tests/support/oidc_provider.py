"""An OpenID provider on this machine that keeps the rules, unless a test tells it not to."""

from __future__ import annotations

import base64
import functools
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from aiohttp import web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey

CLIENT_ID = "tickwheel"
CLIENT_SECRET = "kept between the two: £%+"


@functools.cache
def rsa_key() -> RSAKey:
    """Made once: it costs a tenth of a second."""
    return RSAKey.generate_key(2048, {"kid": "rsa-1", "use": "sig"})


def ec_key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


def sign(claims: dict[str, Any], key: Key, *, alg: str, kid: str | None) -> str:
    """A token as an honest provider makes it."""
    return jwt.encode({"alg": alg} | ({"kid": kid} if kid else {}), claims, key, algorithms=[alg])


@dataclass
class LocalProvider:
    """What it says, and what it was asked."""

    now: Callable[[], int]  # epoch ms
    url: str = ""
    person: dict[str, Any] = field(
        default_factory=lambda: {"sub": "248289761001", "preferred_username": "Ada"}
    )
    told_when_asked: dict[str, Any] = field(default_factory=dict)  # at the userinfo endpoint
    metadata: dict[str, Any] = field(default_factory=dict)  # laid over what it publishes
    changes: dict[str, Any] = field(default_factory=dict)  # laid over the claims; None: left out
    key: Key = field(default_factory=lambda: ec_key("ec-1"))
    published: list[Key] | None = None  # None: the key it signs with
    make_token: Callable[[dict[str, Any]], str] | None = None  # instead of an honest one
    token_error: tuple[int, dict[str, Any]] | None = None
    asked: list[str] = field(default_factory=list)  # paths
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def authorize(self, url: str) -> str:
        """Let the person in who came by this address; returns where they are sent back to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert query["client_id"] == CLIENT_ID
        assert query["response_type"] == "code"
        assert "openid" in query["scope"].split()
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def id_token(self, request: dict[str, str]) -> str:
        now = self.now() // 1000
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": request["nonce"],
            **self.person,
            **self.changes,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.make_token is not None:
            return self.make_token(claims)
        alg = "RS256" if self.key.key_type == "RSA" else "ES256"
        return sign(claims, self.key, alg=alg, kid=self.key.kid)

    # --- endpoints -------------------------------------------------------------------------------

    async def discover(self, _request: web.Request) -> web.Response:
        told = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?tenant=main",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "scopes_supported": ["openid", "profile", "groups"],
        }
        return web.json_response(told | self.metadata)

    async def keys(self, _request: web.Request) -> web.Response:
        keys = [self.key] if self.published is None else self.published
        return web.json_response({"keys": [key.as_dict(private=False) for key in keys]})

    async def token(self, request: web.Request) -> web.Response:
        if self.token_error is not None:
            status, body = self.token_error
            return web.json_response(body, status=status)
        form = await request.post()
        if self.who_asks(request, form) != [CLIENT_ID, CLIENT_SECRET]:
            return web.json_response({"error": "invalid_client"}, status=401)
        asked = self.codes.pop(str(form.get("code")), None)
        digest = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or asked["redirect_uri"] != form.get("redirect_uri")
            or asked["code_challenge"] != challenge
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response(
            {"access_token": "let-me-in", "token_type": "Bearer", "id_token": self.id_token(asked)}
        )

    def who_asks(
        self, request: web.Request, form: Mapping[str, str | bytes | web.FileField]
    ) -> list[str]:
        """Client and secret, by the one way that was published."""
        if "token_endpoint_auth_methods_supported" in self.metadata:
            return [str(form.get(name)) for name in ("client_id", "client_secret")]
        scheme, _, packed = request.headers.get("Authorization", "").partition(" ")
        assert scheme == "Basic"
        return [unquote_plus(each) for each in base64.b64decode(packed).decode().split(":")]

    async def userinfo(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer let-me-in":
            return web.Response(status=401)
        return web.json_response(self.told_when_asked)


@asynccontextmanager
async def local_provider(now: Callable[[], int]) -> AsyncIterator[LocalProvider]:
    """Serve one; its issuer is `url`."""
    provider = LocalProvider(now=now)

    @web.middleware
    async def note(
        request: web.Request, handler: Callable[[web.Request], Any]
    ) -> web.StreamResponse:
        provider.asked.append(request.path)
        answer: web.StreamResponse = await handler(request)
        return answer

    app = web.Application(middlewares=[note])
    app.router.add_get("/.well-known/openid-configuration", provider.discover)
    app.router.add_get("/keys", provider.keys)
    app.router.add_post("/token", provider.token)
    app.router.add_get("/userinfo", provider.userinfo)
    async with TestServer(app, host="127.0.0.1") as server:
        provider.url = str(server.make_url("/")).rstrip("/")
        yield provider
