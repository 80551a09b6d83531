"""Executors of the protocol `xxl_job`: what people say of them, and where they may be called."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.executors.xxl_addresses import (
    MAX_ADDRESS_CHARS,
    InvalidAddress,
    normalise,
)
from tickwheel_admin.domain.fields import CONTROL_CHARACTERS, INVISIBLE_CHARACTER, is_clean
from tickwheel_admin.domain.names import unseen_character

MIN_APP_NAME_CHARS, MAX_APP_NAME_CHARS = 4, 64  # as XXL-JOB has it
MAX_TOKEN_CHARS = 200
MAX_ADDRESSES = 200
MAX_PARAM_CHARS = 65_536
DEFAULT_TOKEN = "default_token"  # noqa: S105 - in the configuration that XXL-JOB comes with

# What handlers are given: one text.
PARAMETER_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "param": {"type": "string", "format": "multiline", "maxLength": MAX_PARAM_CHARS}
        },
        "additionalProperties": False,
    },
    separators=(",", ":"),
)

_TOKEN = re.compile(rf"[\x21-\x7e]{{1,{MAX_TOKEN_CHARS}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlSettings:
    """What a person says of such an executor."""

    app_name: str  # by which its processes register
    token: str = field(repr=False)  # both sides send it with each call
    addresses: tuple[str, ...] | None = None  # None: its processes register themselves


def normal_address(text: str) -> str | None:
    """The one form in which an address is kept; None: it is no URL of an executor."""
    try:
        return normalise(text)
    except InvalidAddress:
        return None


def read_settings(
    *, app_name: str, token: str | None, addresses: Iterable[str] | None
) -> tuple[XxlSettings, list[Problem]]:
    """The settings in their normal form, and every problem of them.

    Args:
        token: None: not to be looked at.
        addresses: None: processes register themselves.
    """
    app_name = app_name.strip()
    problems = _app_name_problems(app_name)
    if token is not None:
        problems += _token_problems(token)
    known: tuple[str, ...] | None = None
    if addresses is not None:
        known, wrong = _read_addresses(list(addresses))
        problems += wrong
    return XxlSettings(app_name=app_name, token=token or "", addresses=known), problems


def _app_name_problems(app_name: str) -> list[Problem]:
    where = "xxl_job.app_name"
    if not MIN_APP_NAME_CHARS <= len(app_name) <= MAX_APP_NAME_CHARS:
        return [
            Problem(
                field=where,
                code="executor.app_name_invalid",
                template="%(low)d to %(high)d characters: the AppName of the executor,"
                " xxl.job.executor.appname in its configuration.",
                params={"low": MIN_APP_NAME_CHARS, "high": MAX_APP_NAME_CHARS},
            )
        ]
    if not is_clean(app_name):
        return [Problem(field=where, code="control_characters", template=CONTROL_CHARACTERS)]
    if (unseen := unseen_character(app_name)) is not None:
        params = {"character": unseen}
        return [
            Problem(
                field=where,
                code="invisible_character",
                template=INVISIBLE_CHARACTER,
                params=params,
            )
        ]
    return []


def _token_problems(token: str) -> list[Problem]:
    where = "xxl_job.token"
    if not token:
        return [
            Problem(
                field=where,
                code="executor.xxl_token_empty",
                template="An access token is needed: without one, an executor lets anybody who"
                " reaches it run code. Set xxl.job.accessToken in the executor’s configuration"
                " to a random text, such as “openssl rand -hex 24” prints, and enter it here.",
            )
        ]
    if not _TOKEN.fullmatch(token):
        return [
            Problem(
                field=where,
                code="executor.xxl_token_invalid",
                template="1 to %(limit)d visible ASCII characters without spaces: the"
                " xxl.job.accessToken of the executor’s configuration.",
                params={"limit": MAX_TOKEN_CHARS},
            )
        ]
    return []


def _read_addresses(texts: Sequence[str]) -> tuple[tuple[str, ...], list[Problem]]:
    where = "xxl_job.addresses"
    if not 1 <= len(texts) <= MAX_ADDRESSES:
        problem = Problem(
            field=where,
            code="out_of_range",
            template="Give 1 to %(limit)d addresses, or let its processes register themselves.",
            params={"limit": MAX_ADDRESSES},
        )
        return (), [problem]
    found: dict[str, None] = {}
    problems = []
    for index, text in enumerate(texts):
        address = normal_address(text)
        if address is None:
            problems.append(
                Problem(
                    field=f"{where}[{index}]",
                    code="executor.address_invalid",
                    template="“%(address)s” is not the address of an executor, such as"
                    " http://10.0.0.5:9999: http or https, a host, its port, and a path if it"
                    " has one.",
                    params={"address": text[:MAX_ADDRESS_CHARS]},
                )
            )
        else:
            found[address] = None
    return tuple(found), problems
