"""Checking an ID token (OpenID Connect Core 1.0 §3.1.3.7): nothing in it is believed before."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key

from tickwheel_admin.domain.users.oidc import OidcSettings
from tickwheel_admin.services.users.oidc.provider import OidcProvider

# Signatures of a key pair only: with HS256 the provider's public key could be taken for a secret.
ALGORITHMS: Mapping[str, str] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "Ed25519": "OKP",
}
LEEWAY_SECONDS = 120  # between the provider's clock and the database's
MAX_SUBJECT_CHARS = 255
_MAX_HEADER_BYTES = 8 * 1024  # some send certificates along


class TokenRefused(Exception):
    """The ID token cannot be trusted; the text says why, for the log."""


async def check_id_token(
    token: str,
    provider: OidcProvider,
    settings: OidcSettings,
    *,
    nonce: str,
    begun_at: int,
    now: int,
) -> dict[str, Any]:
    """The claims of a token that holds.

    Args:
        nonce: that this login sent; a token of another login has another one.
        begun_at, now: database time, epoch ms.

    Raises:
        TokenRefused
        ProviderAway, ProviderUnusable: its keys could not be had.
    """
    header = _header_of(token)
    kid, key_type = header.get("kid"), ALGORITHMS.get(str(header.get("alg")))
    if key_type is None:
        raise TokenRefused(f"signed with {str(header.get('alg'))[:40]!r}")

    def fits(key: Key) -> bool:
        return key.key_type == key_type and (kid is None or key.kid == kid)

    claims = _verified(token, await provider.keys(wanted=fits))
    _check_claims(claims, settings, begun_at=begun_at, now=now)
    told = claims.get("nonce")
    if not isinstance(told, str) or not hmac.compare_digest(told.encode(), nonce.encode()):
        raise TokenRefused("the nonce is not that of this login")
    return claims


def _header_of(token: str) -> Mapping[str, Any]:
    try:
        return jws.extract_compact(token.encode(), registry=_registry()).headers()
    except (JoseError, ValueError) as error:
        raise TokenRefused(f"not a signed token: {type(error).__name__}") from None


def _verified(token: str, keys: list[Key]) -> dict[str, Any]:
    """The claims, once the signature is that of one of the keys."""
    problem = "no key of the provider fits"
    for key in keys:  # more than one only when the token does not say which
        try:
            return dict(jwt.decode(token, key, registry=_registry()).claims)
        except (JoseError, ValueError, TypeError) as error:
            problem = f"{type(error).__name__}: {error}"[:200]
    raise TokenRefused(problem)


def _check_claims(
    claims: Mapping[str, Any], settings: OidcSettings, *, begun_at: int, now: int
) -> None:
    registry = jwt.JWTClaimsRegistry(
        now=now // 1000,
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": settings.issuer},
        sub={"essential": True},
        aud={"essential": True, "value": settings.client_id},
        exp={"essential": True},
        iat={"essential": True},
    )
    try:
        registry.validate(dict(claims))
    except JoseError as error:
        raise TokenRefused(f"{type(error).__name__}: {error}"[:200]) from None
    if claims["iat"] < begun_at // 1000 - LEEWAY_SECONDS:
        raise TokenRefused("issued before this login began")
    audience, party = claims["aud"], claims.get("azp")
    if isinstance(audience, list) and len(audience) > 1 and party is None:
        raise TokenRefused("for several parties, without saying to which it was given")
    if party is not None and party != settings.client_id:
        raise TokenRefused("given to another party")
    if not 0 < len(claims["sub"]) <= MAX_SUBJECT_CHARS:
        raise TokenRefused("no usable subject")


def _registry() -> jws.JWSRegistry:
    # Header parameters that nobody knows are to be ignored (RFC 7515 §4), critical ones are not.
    registry = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
    registry.max_header_length = _MAX_HEADER_BYTES
    return registry
