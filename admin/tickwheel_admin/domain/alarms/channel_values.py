"""Values of channels' fields: each reader raises ValueError with an English message id."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from tickwheel_admin.domain.alarms.channel_fields import (
    MAX_HEADERS,
    MAX_RECIPIENTS,
    FieldForm,
)
from tickwheel_admin.domain.errors import Word

MIN_KEY_CHARS, MIN_KEY_BYTES, MAX_KEY_BYTES = 24, 16, 200
KEY_PREFIX = "whsec_"  # of keys in base64, as https://www.standardwebhooks.com has them
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_LOCAL_PART = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_ADDRESS = re.compile(rf"{_LOCAL_PART}@[A-Za-z0-9]([A-Za-z0-9.-]{{0,251}}[A-Za-z0-9])?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://\S+")
# Set by the channel itself, or by HTTP.
_OWN_HEADERS = frozenset(
    (
        "accept-encoding", "connection", "content-encoding", "content-length", "content-type",
        "expect", "host", "idempotency-key", "te", "trailer", "transfer-encoding", "upgrade",
        "webhook-id", "webhook-signature", "webhook-timestamp",
    )
)  # fmt: skip


def one_line(value: str) -> str:
    """Text as it is."""
    return value


def host(value: str) -> str:
    """The name or IP address of a server."""
    try:
        return str(ip_address(value))
    except ValueError:
        if _HOST.fullmatch(value) is None or ".." in value:
            raise ValueError(Word("This must be the name or IP address of a server.")) from None
        return value.lower()


def port(value: str) -> str:
    """A port."""
    if not (value.isascii() and value.isdigit() and len(value) <= 5 and 0 < int(value) < 65_536):
        raise ValueError(Word("This must be a port, from 1 to 65535."))
    return str(int(value))


def address(value: str) -> str:
    """One e-mail address, without a name."""
    if len(value) > 254 or _ADDRESS.fullmatch(value) is None or ".." in value.rpartition("@")[2]:
        raise ValueError(Word("This must be an e-mail address, such as ops@example.com."))
    return value


def addresses(value: str) -> str:
    """Several e-mail addresses; one a line afterwards, each once."""
    found = list(dict.fromkeys(re.split(r"[\s,;]+", value.strip(" ,;\n\t"))))
    if len(found) > MAX_RECIPIENTS:
        raise ValueError(Word("At most 50 recipients, please; a mailing list can have more."))
    if any(_is_no_address(each) for each in found):
        raise ValueError(Word("Each of these must be an e-mail address, one a line."))
    return "\n".join(found)


def http_url(value: str) -> str:
    """A URL of http or https, without a password."""
    return _url(value, ("http", "https"), Word("This must be a URL of http:// or https://."))


def https_url(value: str) -> str:
    """The same, of https only: it holds a token."""
    return _url(value, ("https",), Word("This must be a URL of https://: it holds a token."))


def headers(value: str) -> str:
    """Lines of `Name: value`; each in one spelling afterwards."""
    found: dict[str, str] = {}
    for line in filter(None, (each.strip() for each in value.split("\n"))):
        name, colon, text = (part.strip() for part in line.partition(":"))
        if not colon or _HEADER_NAME.fullmatch(name) is None or not _is_header_value(text):
            raise ValueError(
                Word("Each line must be a header, such as Authorization: Bearer …, in ASCII.")
            )
        if name.lower() in _OWN_HEADERS:
            raise ValueError(Word("A header here is one that the channel sets itself."))
        if name.lower() in found:
            raise ValueError(Word("A header is there twice."))
        found[name.lower()] = f"{name}: {text}"
    if len(found) > MAX_HEADERS:
        raise ValueError(Word("At most 20 headers, please."))
    return "\n".join(found.values())


def signing_key(value: str) -> str:
    """What requests are signed with; `key_bytes` gives its bytes."""
    rule = Word("This must be 24 to 200 characters, or whsec_ and 16 to 200 bytes in base64.")
    if value.startswith(KEY_PREFIX):
        try:
            is_good = MIN_KEY_BYTES <= len(key_bytes(value)) <= MAX_KEY_BYTES
        except ValueError:
            is_good = False
    else:
        is_good = len(value) >= MIN_KEY_CHARS
    if not is_good:
        raise ValueError(rule)
    return value


def apprise_url(value: str) -> str:
    """A URL as Apprise reads it; whether it knows the service is seen when it is used."""
    if _SCHEME.fullmatch(value) is None or not value.isprintable():
        raise ValueError(Word("This must be a URL of Apprise, such as tgram://token/chat."))
    return value


def key_bytes(secret: str) -> bytes:
    """The bytes of a signing key.

    Raises:
        ValueError: its base64 cannot be read.
    """
    if secret.startswith(KEY_PREFIX):
        return base64.b64decode(secret.removeprefix(KEY_PREFIX), validate=True)
    return secret.encode()


def header_items(value: str) -> dict[str, str]:
    """The headers that `headers` gave, by name."""
    pairs = (line.partition(": ") for line in value.split("\n") if line)
    return {name: text for name, _, text in pairs}


READERS: Mapping[FieldForm, Callable[[str], str]] = {
    FieldForm.TEXT: one_line,
    FieldForm.HOST: host,
    FieldForm.PORT: port,
    FieldForm.ADDRESS: address,
    FieldForm.ADDRESSES: addresses,
    FieldForm.HTTP_URL: http_url,
    FieldForm.HTTPS_URL: https_url,
    FieldForm.HEADERS: headers,
    FieldForm.SIGNING_KEY: signing_key,
    FieldForm.APPRISE_URL: apprise_url,
}


def _is_no_address(text: str) -> bool:
    try:
        address(text)
    except ValueError:
        return True
    return False


def _is_header_value(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()


def _url(value: str, schemes: tuple[str, ...], rule: Word) -> str:
    if not value.isascii() or not value.isprintable() or " " in value or "\\" in value:
        raise ValueError(Word("A URL has only printable ASCII characters and no spaces."))
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise ValueError(rule)
    if "@" in parts.netloc or "#" in value:
        raise ValueError(Word("A URL here has no user, no password and no fragment."))
    return value
