"""Who may come in: people, their sessions, their rights, their API tokens.

Sessions and API tokens live in the database and end with the password, the role or the person, at
the next request. What a browser or a program holds is random; the database has only its SHA-256.
"""

from __future__ import annotations

from tickwheel_admin.services.users.administration import FIRST_ADMIN as FIRST_ADMIN
from tickwheel_admin.services.users.administration import PeopleAdministration
from tickwheel_admin.services.users.api_tokens import API_TOKEN_PREFIX as API_TOKEN_PREFIX
from tickwheel_admin.services.users.api_tokens import ApiTokens
from tickwheel_admin.services.users.base import COMMAND_LINE as COMMAND_LINE
from tickwheel_admin.services.users.base import NewSession as NewSession
from tickwheel_admin.services.users.lists import PersonDetail as PersonDetail
from tickwheel_admin.services.users.lists import PersonItem as PersonItem
from tickwheel_admin.services.users.lists import SessionItem as SessionItem
from tickwheel_admin.services.users.lists import TokenItem as TokenItem
from tickwheel_admin.services.users.logins import Logins
from tickwheel_admin.services.users.own_account import OwnAccount
from tickwheel_admin.store.users.identity import SessionView as SessionView


class People(Logins, OwnAccount, PeopleAdministration, ApiTokens):
    """Every use case of identity; each part stands in a file of its own."""
