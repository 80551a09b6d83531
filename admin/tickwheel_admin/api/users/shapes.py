"""The shape of users, tokens and saved views in requests and answers."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.input.grants import MAX_GRANTS
from tickwheel_admin.domain.users.saved_view import ListPage
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.web.input_fields import MAX_ID


class GrantJson(TypedDict):
    """A role with one executor, or with all."""

    executor_id: NotRequired[
        Annotated[
            Annotated[int, Meta(ge=1, le=MAX_ID)] | None, doc("Null or left out: all executors.")
        ]
    ]
    role: Role
    scripts: NotRequired[Annotated[bool | None, doc("May also edit what nodes run as scripts.")]]


Grants = Annotated[list[GrantJson], Meta(max_length=MAX_GRANTS)]


class UserJson(TypedDict):
    """A user."""

    id: int
    name: str
    grants: list[GrantJson]
    disabled: bool
    must_change_password: bool
    has_password: bool
    is_from_oidc: bool
    created_at: Instant | None
    logged_in_at: Instant | None


class SessionJson(TypedDict):
    """A browser in which a user is logged in."""

    created_at: Instant | None
    seen_at: Annotated[Instant | None, doc("To about a minute.")]
    address: str
    user_agent: str


class TokenJson(TypedDict):
    """An API token, without what makes it one."""

    id: int
    user_name: str
    name: str
    role: Annotated[Role | None, doc("At most this one; null: as the user.")]
    executors: Annotated[list[int] | None, doc("Only on these; null: as the user.")]
    created_at: Instant | None
    expires_at: Instant | None
    used_at: Annotated[Instant | None, doc("To about a minute.")]


class UserDetailJson(UserJson):
    """A user with sessions and tokens."""

    sessions: list[SessionJson]
    tokens: list[TokenJson]


class CallerJson(TypedDict):
    """Who asks."""

    id: int
    name: str
    grants: Annotated[list[GrantJson], doc("As limited by the token.")]
    token_id: Annotated[int | None, doc("Null with a session.")]


class NewUserJson(TypedDict):
    """A user who was added; the one-time password is told only this once."""

    id: int
    name: str
    password: str


class NewPasswordJson(TypedDict):
    """A one-time password, told only this once."""

    password: str


class EndedSessionsJson(TypedDict):
    """How many sessions ended."""

    ended: int


class NewTokenJson(TypedDict):
    """A token that was made, told only this once."""

    id: int
    token: str


class SavedViewJson(TypedDict):
    """A filter of a list that somebody keeps under a name."""

    id: int
    page: ListPage
    name: str
    query: str
    shared: bool
    owner: str
    own: bool
