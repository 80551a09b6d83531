"""A letter as an e-mail: plain text and HTML, with the headers by which mail programs sort it.

Headers are set from cleaned texts through the e-mail package's own policy, which refuses line
ends: nothing that an alarm is about can add a header. `Auto-Submitted` (RFC 3834) keeps absence
notices from answering. Messages about one alarm refer to the same id (RFC 5322 §3.6.4), so that
they are one thread also where the first of them was lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from tickwheel_admin.channels.email.html import html_page
from tickwheel_admin.channels.text.cleaning import NAME_CHARS, clean
from tickwheel_admin.channels.text.letter import Letter, fitted
from tickwheel_admin.channels.text.plain import plain_text
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.message import AlarmMessage

MAX_CHARS = 150_000  # of both texts; mail programs show no more, and servers take some megabytes
_MAX_THREADS = 20  # alarms of a digest to which it refers


def email_message(channel: Channel, message: AlarmMessage, letter: Letter) -> EmailMessage:
    """The message from the channel's sender to its recipients."""
    sender = channel.settings["sender"]
    domain = sender.rpartition("@")[2]
    place = clean(message.installation, NAME_CHARS)
    mail = EmailMessage(policy=SMTP)
    mail["Date"] = format_datetime(datetime.fromtimestamp(message.written_at // 1_000, UTC))
    mail["From"] = Address(display_name=f"Tickwheel {place}".strip(), addr_spec=sender)
    mail["To"] = [Address(addr_spec=each) for each in recipients_of(channel)]
    mail["Subject"] = letter.subject
    mail["Message-ID"] = f"<{message.id}@{domain}>"
    if threads := _threads(message, domain):
        mail["In-Reply-To"] = threads[0]
        mail["References"] = " ".join(threads)
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"  # the same for Exchange
    plain, page = fitted(letter, _both, size=_chars, limit=MAX_CHARS)
    mail.set_content(plain, cte="quoted-printable")
    mail.add_alternative(page, subtype="html", cte="quoted-printable")
    return mail


def _both(letter: Letter) -> tuple[str, str]:
    return plain_text(letter), html_page(letter)


def _chars(texts: tuple[str, str]) -> int:
    return sum(map(len, texts))


def recipients_of(channel: Channel) -> list[str]:
    """Addresses of a channel."""
    return channel.settings["recipients"].split("\n")


def _threads(message: AlarmMessage, domain: str) -> Sequence[str]:
    """An id for each alarm, that no message has: what is about the same alarm refers to it."""
    place = hashlib.sha256(message.installation.encode()).hexdigest()[:12]
    known = dict.fromkeys(each.alarm_id for each in message.entries if each.alarm_id)
    return [f"<alarm-{alarm_id}.{place}@{domain}>" for alarm_id in list(known)[:_MAX_THREADS]]
