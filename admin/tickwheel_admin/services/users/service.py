"""Who may come in: people, their sessions, their rights, their API tokens.

Sessions and API tokens live in the database and end with the password, the role or the person, at
the next request. What a browser or a program holds is random; the database has only its SHA-256.
"""

from __future__ import annotations

from tickwheel_admin.services.api_tokens import API_TOKEN_PREFIX as API_TOKEN_PREFIX
from tickwheel_admin.services.api_tokens import ApiTokens
from tickwheel_admin.services.identity import COMMAND_LINE as COMMAND_LINE
from tickwheel_admin.services.identity import NewSession as NewSession
from tickwheel_admin.services.logins import Logins
from tickwheel_admin.services.own_account import OwnAccount
from tickwheel_admin.services.people_admin import FIRST_ADMIN as FIRST_ADMIN
from tickwheel_admin.services.people_admin import PeopleAdministration
from tickwheel_admin.services.people_lists import PersonDetail as PersonDetail
from tickwheel_admin.services.people_lists import PersonItem as PersonItem
from tickwheel_admin.services.people_lists import SessionItem as SessionItem
from tickwheel_admin.services.people_lists import TokenItem as TokenItem
from tickwheel_admin.store.identity import SessionView as SessionView


class People(Logins, OwnAccount, PeopleAdministration, ApiTokens):
    """Every use case of identity; each part stands in a file of its own."""
