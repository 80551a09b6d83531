"""What each kind of channel needs, as records: forms, the API and the parser draw from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.domain.alarms.channel import MAX_PER_MINUTE, ChannelKind
from tickwheel_admin.domain.errors import Word

MAX_URL_CHARS = 2_000
MAX_RECIPIENTS = 50
MAX_HEADERS = 20
STARTTLS, TLS, NO_TLS = "starttls", "tls", "none"
DEFAULT_PORTS: Mapping[str, int] = {STARTTLS: 587, TLS: 465, NO_TLS: 25}


class FieldForm(StrEnum):
    """How a field is read, and which widget a form has for it."""

    TEXT = "text"  # one line
    CHOICE = "choice"
    HOST = "host"
    PORT = "port"
    ADDRESS = "address"  # one e-mail address
    ADDRESSES = "addresses"  # several, one a line
    HTTP_URL = "http_url"
    HTTPS_URL = "https_url"
    HEADERS = "headers"  # "Name: value", one a line
    SIGNING_KEY = "signing_key"
    APPRISE_URL = "apprise_url"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelField:
    """One field of a kind of channel. Its value is text; "" is a value that was not given."""

    name: str
    label: Word
    form: FieldForm
    hint: str = ""  # a Word where it is translated
    is_required: bool = False
    is_secret: bool = False  # stored encrypted, and never shown again
    is_destination: bool = False  # when it changes, secrets that go there are entered again
    max_chars: int = 200
    choices: tuple[str, ...] = ()  # of form CHOICE
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelKindSpec:
    """One kind of channel."""

    kind: ChannelKind
    title: Word
    fields: tuple[ChannelField, ...]
    per_minute: int  # messages, when nothing else is said
    most_per_minute: int = MAX_PER_MINUTE  # what the service takes from one bot

    @property
    def secrets(self) -> frozenset[str]:
        """Names of its secret fields."""
        return frozenset(each.name for each in self.fields if each.is_secret)


def _bot_url(hint: str) -> ChannelField:
    """The address of a bot holds its token, so it is a secret as a whole."""
    return ChannelField(
        name="url",
        label=Word("Webhook URL"),
        form=FieldForm.HTTPS_URL,
        hint=hint,
        is_required=True,
        is_secret=True,
        max_chars=MAX_URL_CHARS,
    )


_SIGNING_SECRET = ChannelField(
    name="secret",
    label=Word("Signing secret"),
    form=FieldForm.TEXT,
    hint=Word("Of the bot’s security settings, if it checks signatures."),
    is_secret=True,
)

_EMAIL = (
    ChannelField(
        name="host",
        label=Word("Mail server"),
        form=FieldForm.HOST,
        hint=Word("Name or IP address of the SMTP server."),
        is_required=True,
        is_destination=True,
        max_chars=253,
    ),
    ChannelField(
        name="security",
        label=Word("Encryption"),
        form=FieldForm.CHOICE,
        hint=Word("“none” sends everything in clear, and allows no password."),
        is_destination=True,
        choices=(STARTTLS, TLS, NO_TLS),
        default=STARTTLS,
    ),
    ChannelField(
        name="port",
        label=Word("Port"),
        form=FieldForm.PORT,
        hint=Word("587 for starttls, 465 for tls, 25 for none, unless you say otherwise."),
        is_destination=True,
    ),
    ChannelField(name="username", label=Word("User name"), form=FieldForm.TEXT),
    ChannelField(
        name="password",
        label=Word("Password"),
        form=FieldForm.TEXT,
        is_secret=True,
        max_chars=1_000,
    ),
    ChannelField(
        name="sender",
        label=Word("Sender"),
        form=FieldForm.ADDRESS,
        hint=Word("The e-mail address that messages come from."),
        is_required=True,
    ),
    ChannelField(
        name="recipients",
        label=Word("Recipients"),
        form=FieldForm.ADDRESSES,
        hint=Word("E-mail addresses, one a line."),
        is_required=True,
        max_chars=MAX_RECIPIENTS * 255,
    ),
)

_WEBHOOK = (
    ChannelField(
        name="url",
        label=Word("URL"),
        form=FieldForm.HTTP_URL,
        hint=Word("Shown to everybody who may see the channel; tokens belong into headers."),
        is_required=True,
        is_destination=True,
        max_chars=MAX_URL_CHARS,
    ),
    ChannelField(
        name="secret",
        label=Word("Signing key"),
        form=FieldForm.SIGNING_KEY,
        hint=Word("24 to 200 characters, or whsec_ and base64. Requests are signed with it."),
        is_secret=True,
    ),
    ChannelField(
        name="headers",
        label=Word("Headers"),
        form=FieldForm.HEADERS,
        hint=Word("Further headers of each request, one a line: Authorization: Bearer …"),
        is_secret=True,
        max_chars=8_000,
    ),
)

# Bots may send 20 messages a minute by DingTalk and WeCom, 100 by Feishu, and one a second by Slack
# (the sources stand with the senders). What tells more than 20 times a minute is read by nobody.
CHANNEL_KINDS: Mapping[ChannelKind, ChannelKindSpec] = {
    each.kind: each
    for each in (
        ChannelKindSpec(kind=ChannelKind.EMAIL, title=Word("E-mail"), fields=_EMAIL, per_minute=20),
        ChannelKindSpec(
            kind=ChannelKind.WEBHOOK, title=Word("Webhook"), fields=_WEBHOOK, per_minute=60
        ),
        ChannelKindSpec(
            kind=ChannelKind.DINGTALK,
            title=Word("DingTalk"),
            fields=(
                _bot_url("https://oapi.dingtalk.com/robot/send?access_token=…"),
                _SIGNING_SECRET,
            ),
            per_minute=20,
            most_per_minute=20,
        ),
        ChannelKindSpec(
            kind=ChannelKind.WECOM,
            title=Word("WeCom"),
            fields=(_bot_url("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=…"),),
            per_minute=20,
            most_per_minute=20,
        ),
        ChannelKindSpec(
            kind=ChannelKind.FEISHU,
            title=Word("Feishu / Lark"),
            fields=(
                _bot_url("https://open.feishu.cn/open-apis/bot/v2/hook/…"),
                _SIGNING_SECRET,
            ),
            per_minute=20,
            most_per_minute=100,
        ),
        ChannelKindSpec(
            kind=ChannelKind.SLACK,
            title=Word("Slack"),
            fields=(_bot_url("https://hooks.slack.com/services/…"),),
            per_minute=20,
            most_per_minute=60,
        ),
        ChannelKindSpec(
            kind=ChannelKind.TEAMS,
            title=Word("Microsoft Teams"),
            fields=(_bot_url(Word("The address that the workflow “Post to a channel” shows.")),),
            per_minute=20,
        ),
        ChannelKindSpec(
            kind=ChannelKind.APPRISE,
            title=Word("Other services (Apprise)"),
            fields=(
                ChannelField(
                    name="url",
                    label=Word("Apprise URL"),
                    form=FieldForm.APPRISE_URL,
                    hint=Word("Such as tgram://token/chat or ntfys://host/topic."),
                    is_required=True,
                    is_secret=True,
                    max_chars=MAX_URL_CHARS,
                ),
            ),
            per_minute=20,
        ),
    )
}
