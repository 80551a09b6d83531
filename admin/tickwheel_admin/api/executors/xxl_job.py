"""What executors of the protocol `xxl_job` have besides, in requests and answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from tickwheel_admin.api.answers import instant
from tickwheel_admin.api.executors.shapes import XxlExecutorJson
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.services.xxl_job.service import XxlExecutorView
from tickwheel_admin.web.input_fields import given, names_of

XXL_FIELDS = (
    given("app_name", "The `xxl.job.executor.appname` of the service.", str),
    given("token", "Its `xxl.job.accessToken`; stored encrypted, never told.", str),
    given("addresses", "URLs where it listens; null: its processes register.", list[str]),
)
_MAX_CHARS = 1_000  # beyond it nothing is looked at more closely


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlFields:
    """The object `xxl_job` of a request."""

    app_name: str | None  # None: not given
    token: str | None = field(repr=False)
    addresses: list[str] | None
    registers: bool  # `addresses` is null


def read_xxl_fields(mine: Fields) -> XxlFields:
    """Of the object `xxl_job`; problems are noted in it."""
    if mine.is_object:
        mine.only(names_of(XXL_FIELDS))
    addresses = mine.raw.get("addresses")
    if addresses is not None and not (
        isinstance(addresses, list) and all(isinstance(each, str) for each in addresses)
    ):
        mine.refuse("addresses", "wrong_type", "This must be a list of texts.")
        addresses = None
    return XxlFields(
        app_name=_text(mine, "app_name"),
        token=_text(mine, "token"),
        addresses=addresses,
        registers="addresses" in mine.raw and addresses is None,
    )


def _text(fields: Fields, name: str) -> str | None:
    """As it stands: trimming a token would hide that it is wrong."""
    value = fields.raw.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        fields.refuse(name, "wrong_type", "This must be text.")
        return None
    if len(value) > _MAX_CHARS:
        fields.refuse(name, "too_long", "At most %(limit)d characters, please.", limit=_MAX_CHARS)
        return None
    return value


def xxl_view(view: XxlExecutorView) -> XxlExecutorJson:
    """The object `xxl_job` of an executor; its token is never in it."""
    return {
        "app_name": view.app_name,
        "addresses": None if view.addresses is None else list(view.addresses),
        "has_default_token": view.has_default_token,
        "known_addresses": [
            {
                "address": each.address,
                "registered_at": instant(each.registered_at),
                "removed_at": instant(each.removed_at),
                "node_id": each.node_id,
                "dialect": each.dialect,
                "last_beat_at": instant(each.beat_at),
                "calls": each.calls,
                "errors": each.errors,
                "last_error": each.error,
                "last_error_at": instant(each.error_at),
            }
            for each in view.known
        ],
    }
