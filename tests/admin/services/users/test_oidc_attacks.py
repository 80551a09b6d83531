"""Logging in at an OpenID provider under attack: nobody comes in by what is not theirs."""

from __future__ import annotations

import functools
import hmac
import json
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlencode

import pytest
from aiohttp import ClientResponse, web
from joserfc.jwk import OctKey
from joserfc.util import urlsafe_b64encode
from structlog.testing import capture_logs

from tests.admin.kit.oidc import Oidc, query_of
from tests.support.oidc_provider import LocalProvider, ec_key, rsa_key, sign
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.oidc.attempt import LoginAttempt, attempt_of_cookie, new_attempt
from tickwheel_admin.web.keys import SERVICES


async def refused(
    oidc: Oidc, answer: ClientResponse, *words: str, status: int = 401, case: object = ""
) -> None:
    """Nobody is in, nobody was made, no session was given."""
    text = await answer.text()
    assert answer.status == status, case
    assert all(word in text for word in words), case
    assert "tickwheel_session" not in answer.cookies, case
    assert await oidc.who() == 401
    assert await oidc.services.users.list(COMMAND_LINE) == []


# --- tokens ---------------------------------------------------------------------------------------

Token = Callable[[LocalProvider, dict[str, Any]], str]


def packed(part: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).decode()


def unsigned(_provider: LocalProvider, claims: dict[str, Any]) -> str:
    header, body = ({"alg": "none", "typ": "JWT"}, claims)
    return (
        ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode() for part in (header, body))
        + "."
    )


def by_public_key(provider: LocalProvider, claims: dict[str, Any]) -> str:
    """HS256 with the provider's public key, which everybody has, as the secret."""
    # By hand: the library refuses to.
    signed = f"{packed({'alg': 'HS256', 'kid': 'rsa-1'})}.{packed(claims)}"
    mac = hmac.digest(rsa_key().as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{urlsafe_b64encode(mac).decode()}"


def by_client_secret(provider: LocalProvider, claims: dict[str, Any]) -> str:
    secret = OctKey.import_key("kept between the two: £%+")
    return sign(claims, secret, alg="HS256", kid=None)


def by_a_strangers_key(provider: LocalProvider, claims: dict[str, Any]) -> str:
    """Under the name of the provider's own key."""
    return sign(claims, ec_key("ec-1"), alg="ES256", kid="ec-1")


def by_an_unknown_key(provider: LocalProvider, claims: dict[str, Any]) -> str:
    return sign(claims, ec_key("ec-9"), alg="ES256", kid="ec-9")


def altered(provider: LocalProvider, claims: dict[str, Any]) -> str:
    """A good signature over other claims."""
    honest = sign(claims, provider.key, alg="ES256", kid="ec-1").split(".")
    honest[1] = packed(claims | {"sub": "somebody else"})
    return ".".join(honest)


def no_token(_provider: LocalProvider, _claims: dict[str, Any]) -> str:
    return "a.b"


FORGED: list[Token] = [
    unsigned,
    by_public_key,
    by_client_secret,
    by_a_strangers_key,
    by_an_unknown_key,
    altered,
    no_token,
]


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")  # the attacks' own keys
async def test_a_token_that_the_provider_did_not_sign_lets_nobody_in(oidc: Oidc) -> None:
    oidc.provider.published = [oidc.provider.key, rsa_key()]
    for forge in FORGED:
        oidc.provider.make_token = functools.partial(forge, oidc.provider)

        await refused(oidc, await oidc.log_in(), "cannot be trusted", case=forge.__name__)


NOW = 1_800_000_000  # when the tests' logins happen
WRONG: list[dict[str, Any]] = [
    {"iss": "https://evil.example"},
    {"iss": None},
    {"aud": "another"},
    {"aud": ["another"]},
    {"aud": ["tickwheel", "another"]},  # without azp: for whom?
    {"aud": ["tickwheel", "another"], "azp": "another"},
    {"azp": "another"},
    {"exp": NOW - 121},
    {"exp": None},
    {"iat": None},
    {"iat": NOW - 900},  # before this login began
    {"iat": NOW + 900},
    {"nbf": NOW + 900},
    {"nonce": "of another login"},
    {"nonce": None},
    {"nonce": ["a"]},
    {"sub": None},
    {"sub": ""},
    {"sub": 7},
    {"sub": "x" * 256},
]


async def test_a_token_that_is_not_for_this_login_lets_nobody_in(oidc: Oidc) -> None:
    for changes in WRONG:
        oidc.provider.changes = changes

        await refused(oidc, await oidc.log_in(), "cannot be trusted", case=changes)


async def test_why_a_token_was_refused_is_in_the_log_and_not_on_the_page(oidc: Oidc) -> None:
    oidc.provider.changes = {"aud": "another"}

    with capture_logs() as logs:
        answer = await oidc.log_in()

    (entry,) = [each for each in logs if each["event"] == "oidc.token_refused"]
    assert "aud" in entry["cause"]
    assert "aud" not in (await answer.text()).split('role="alert"')[1].split("</div>")[0]


async def test_a_token_for_several_parties_that_was_given_to_us_holds(oidc: Oidc) -> None:
    oidc.provider.changes = {"aud": ["another", "tickwheel"], "azp": "tickwheel"}

    assert (await oidc.log_in()).status == 303


@pytest.mark.parametrize("key", [rsa_key(), ec_key("")], ids=["RSA", "EC without a name"])
async def test_tokens_by_keys_of_either_kind_hold(oidc: Oidc, key: Any) -> None:
    oidc.provider.key = key
    if key.kid == "":
        oidc.provider.make_token = lambda claims: sign(claims, key, alg="ES256", kid=None)

    assert (await oidc.log_in()).status == 303


# --- the way there and back -----------------------------------------------------------------------


async def test_state_nonce_and_challenge_differ_each_time_and_tell_nothing_of_each_other(
    oidc: Oidc,
) -> None:
    first, second = query_of(await oidc.begin()), query_of(await oidc.begin())

    names = ("state", "nonce", "code_challenge")
    assert len({each[name] for each in (first, second) for name in names}) == 6
    assert all(len(first[name]) == 43 for name in names)


@pytest.mark.parametrize("state", [None, "", "x" * 43, "ü"])
async def test_an_answer_to_no_login_of_this_browser_is_not_taken(
    oidc: Oidc, state: str | None
) -> None:
    back = query_of(oidc.provider.authorize(await oidc.begin()))
    query = {"code": back["code"]} | ({} if state is None else {"state": state})

    answer = await oidc.come_back(f"/login/oidc/callback?{urlencode(query)}")

    await refused(oidc, answer, "Begin again")
    assert "/token" not in oidc.provider.asked


async def test_the_answer_to_another_browsers_login_logs_nobody_in(oidc: Oidc) -> None:
    """Login CSRF: the attacker lets a victim finish a login of the attacker's."""
    attackers = oidc.provider.authorize(await oidc.begin(oidc.stranger))

    await refused(oidc, await oidc.come_back(attackers), "Begin again")
    # Nor when the victim's own login is under way.
    await oidc.begin()
    await refused(oidc, await oidc.come_back(attackers), "Begin again")


async def test_a_code_that_was_given_to_another_login_is_not_taken(oidc: Oidc) -> None:
    """The attacker's code beside the victim's state: PKCE parts them, and so does the nonce."""
    theirs = query_of(oidc.provider.authorize(await oidc.begin(oidc.stranger)))
    ours = query_of(oidc.provider.authorize(await oidc.begin()))
    query = urlencode({"code": theirs["code"], "state": ours["state"]})

    await refused(oidc, await oidc.come_back(f"/login/oidc/callback?{query}"), "Begin again")


async def test_an_answer_counts_once(oidc: Oidc) -> None:
    back = oidc.provider.authorize(await oidc.begin())
    assert (await oidc.come_back(back)).status == 303

    again = await oidc.come_back(back)

    assert again.status == 401
    assert oidc.provider.asked.count("/token") == 1  # the cookie went with the first answer


async def test_a_code_that_is_used_up_is_told_in_our_words(oidc: Oidc) -> None:
    back = oidc.provider.authorize(await oidc.begin())
    oidc.provider.codes.clear()

    await refused(oidc, await oidc.come_back(back), "used already or took too long")


async def test_a_login_that_takes_longer_than_ten_minutes_is_begun_again(oidc: Oidc) -> None:
    back = oidc.provider.authorize(await oidc.begin())
    oidc.clock.advance(601)

    await refused(oidc, await oidc.come_back(back), "Begin again")


@pytest.mark.parametrize(
    "next_page",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
    ],
)
async def test_next_never_leaves_this_server(oidc: Oidc, next_page: str) -> None:
    answer = await oidc.log_in(next_page=next_page)

    assert answer.status == 303
    assert answer.headers["Location"] == "/"


async def test_next_never_leaves_this_server_though_the_cookie_says_so(oidc: Oidc) -> None:
    cookie = new_attempt(now=oidc.clock(), next_page="https://evil.example").to_cookie()
    attempt = attempt_of_cookie(cookie)
    assert attempt is not None
    begun = query_of(await oidc.begin())
    query = begun | {
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": attempt.challenge,
    }
    oidc.client.session.cookie_jar.update_cookies(
        {"tickwheel_oidc": cookie}, oidc.client.make_url("/")
    )

    answer = await oidc.come_back(
        oidc.provider.authorize(f"{oidc.provider.url}?{urlencode(query)}")
    )

    assert (answer.status, answer.headers["Location"]) == (303, "/")


async def test_a_session_that_somebody_planted_is_not_the_one_that_begins(oidc: Oidc) -> None:
    oidc.client.session.cookie_jar.update_cookies(
        {"tickwheel_session": "planted"}, oidc.client.make_url("/")
    )

    answer = await oidc.log_in()

    assert answer.cookies["tickwheel_session"].value not in ("", "planted")


# --- what the provider says -----------------------------------------------------------------------


@pytest.mark.parametrize("error", ["access_denied", "<script>alert(1)</script>", "x" * 5_000])
async def test_a_refusal_of_the_provider_is_told_in_our_words(oidc: Oidc, error: str) -> None:
    state = query_of(await oidc.begin())["state"]
    query = urlencode({"error": error, "error_description": "<b>call 555-1234</b>", "state": state})

    answer = await oidc.come_back(f"/login/oidc/callback?{query}")

    await refused(oidc, answer, "did not let you in")
    page = await answer.text()
    assert error not in page
    assert "555-1234" not in page


async def test_an_answer_in_another_issuers_name_is_not_taken(oidc: Oidc) -> None:
    """Mix-up (RFC 9207)."""
    back = oidc.provider.authorize(await oidc.begin())

    answer = await oidc.come_back(f"{back}&iss=https%3A%2F%2Fevil.example")

    await refused(oidc, answer, "cannot be trusted")
    assert "/token" not in oidc.provider.asked


async def test_a_provider_that_names_itself_always_must_do_so(oidc: Oidc) -> None:
    oidc.provider.metadata = {"authorization_response_iss_parameter_supported": True}

    await refused(oidc, await oidc.log_in(), "cannot be trusted")


async def test_other_answers_for_the_code_are_an_outage_to_people(oidc: Oidc) -> None:
    answers: list[tuple[int, dict[str, Any]]] = [
        (401, {"error": "invalid_client"}),
        (200, {}),
        (200, {"id_token": 7}),
        (302, {}),
        (500, {}),
        (200, {"id_token": "x" * 300_000}),
    ]
    for each in answers:
        oidc.provider.token_error = each

        await refused(oidc, await oidc.log_in(), "The log has it", status=503, case=each[0])


async def test_a_flood_of_answers_does_not_become_a_flood_at_the_provider(oidc: Oidc) -> None:
    login = cast("web.Application", oidc.client.app)[SERVICES].oidc
    assert login is not None
    free, login._places = login._places, 0

    await refused(oidc, await oidc.log_in(), "Too many people", status=429)

    assert "/token" not in oidc.provider.asked
    login._places = free
    assert (await oidc.log_in()).status == 303
    assert login._places == free


async def test_the_secret_is_nowhere_to_be_seen(oidc: Oidc) -> None:
    oidc.provider.token_error = (401, {"error": "invalid_client"})

    with capture_logs() as logs:
        begun = await oidc.begin()
        answer = await oidc.come_back(oidc.provider.authorize(begun))

    assert "kept between" not in begun + await answer.text() + repr(logs)


@pytest.mark.parametrize("cookie", ["", "a.b.c", "1..", f"1.{'x' * 43}.%", f"1.{'x' * 43}._w"])
def test_cookies_of_another_shape_are_none(cookie: str) -> None:
    assert attempt_of_cookie(cookie) is None


def test_a_cookie_brings_back_what_was_begun() -> None:
    begun = new_attempt(now=5, next_page="/runs?q=ü")

    assert attempt_of_cookie(begun.to_cookie()) == begun
    assert isinstance(begun, LoginAttempt)
    assert begun.is_answered_by(begun.state)
    assert not begun.holds(4)  # a clock that was set back
