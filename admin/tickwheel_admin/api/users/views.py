"""What the API tells of people, their sessions and tokens: never a hash, never a secret."""

from __future__ import annotations

from typing import cast

from tickwheel_admin.api.answers import instant
from tickwheel_admin.api.users.shapes import (
    CallerJson,
    GrantJson,
    SessionJson,
    TokenJson,
    UserDetailJson,
    UserJson,
)
from tickwheel_admin.domain.input.grants import grants_to_raw
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Grant
from tickwheel_admin.services.users.lists import SessionItem, TokenItem, UserDetail, UserItem


def user_view(item: UserItem) -> UserJson:
    return {
        "id": item.id,
        "name": item.name,
        "grants": cast("list[GrantJson]", grants_to_raw(item.grants)),
        "disabled": item.disabled,
        "must_change_password": item.must_change_password,
        "has_password": item.has_password,
        "is_from_oidc": item.is_from_oidc,
        "created_at": instant(item.created_at),
        "logged_in_at": instant(item.logged_in_at),
    }


def user_detail_view(detail: UserDetail) -> UserDetailJson:
    return {
        **user_view(detail.item),
        "sessions": [session_view(each) for each in detail.sessions],
        "tokens": [token_view(each) for each in detail.tokens],
    }


def session_view(item: SessionItem) -> SessionJson:
    return {
        "created_at": instant(item.created_at),
        "seen_at": instant(item.seen_at),
        "address": item.address,
        "user_agent": item.user_agent,
    }


def token_view(item: TokenItem) -> TokenJson:
    return {
        "id": item.id,
        "user_name": item.user_name,
        "name": item.name,
        "role": None if item.role is None else item.role,
        "executors": item.executors,
        "created_at": instant(item.created_at),
        "expires_at": instant(item.expires_at),
        "used_at": instant(item.used_at),
    }


def actor_view(actor: Actor) -> CallerJson:
    """Who asks, with what is left of their rights within the scope of the token, if one asks."""
    grants = {
        executor_id: Grant(role, not actor.scripts.isdisjoint({executor_id, ALL_EXECUTORS}))
        for executor_id, role in actor.grants.items()
    }
    return {
        "id": actor.user_id,
        "name": actor.name,
        "grants": cast("list[GrantJson]", grants_to_raw(grants)),
        "token_id": actor.token_id,
    }
