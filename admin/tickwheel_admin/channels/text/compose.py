"""From a message to a letter: the words of every alarm in the language of its channel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from tickwheel_admin.channels.text.cleaning import LINE_CHARS, NAME_CHARS, clean, clean_lines
from tickwheel_admin.channels.text.letter import (
    Letter,
    LetterFact,
    LetterLink,
    LetterSection,
    Tone,
)
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.labels import KIND_TITLES, occasion_title
from tickwheel_admin.domain.alarms.message import AlarmEntry, AlarmMessage, Occasion
from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.fields import is_instant
from tickwheel_admin.domain.runs.reasons import template_of_message
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.workflows.graph import Silence
from tickwheel_admin.web.i18n import translate

PRODUCT = "Tickwheel"  # in every message, so that bots with a keyword let it pass
SUBJECT_CHARS = 200
MAX_LINK_CHARS = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LINKS: Mapping[str, Word] = {
    "answer": Word("Answer …"),
    "failure": Word("Failure"),
    "run": Word("Run"),
    "log": Word("Log"),
    "retry": Word("Retry …"),
    "job": Word("Job"),
    "executor": Word("Executor"),
    "alarm": Word("Acknowledge or mute"),
}
_APPROVED_AT, _DECLINED_AT = Word("approved at %(time)s"), Word("declined at %(time)s")
_LINKS_WHEN_OVER: Mapping[str, Word] = {
    **{name: label for name, label in _LINKS.items() if name not in ("answer", "retry")},
    "alarm": Word("Alarm"),
}


def compose(channel: Channel, message: AlarmMessage) -> Letter:
    """The message in the language and the time zone of its channel."""
    return _Composer(channel).letter(message)


class _Composer:
    """Writes for one channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        try:
            self._zone: Zone = zone_of(channel.time_zone)
        except ScheduleError:  # one that tzdata has no more
            self._zone = zone_of("UTC")

    def say(self, template: str, /, **params: Any) -> str:
        return translate(template, params, self._channel.language)

    def letter(self, message: AlarmMessage) -> Letter:
        place = _installation(message.installation)
        first = message.entries[0]
        if message.is_digest:
            text = self.say(
                "%(count)s alarms, first: %(title)s",
                count=message.covered,
                title=self._title(first),
            )
        else:
            text = self._title(first)
        sections = tuple(self._section(each) for each in message.entries)
        return Letter(
            id=message.id,
            language=self._channel.language,
            subject=clean(f"[{place}] {text}", SUBJECT_CHARS),
            tone=_tone([each.tone for each in sections]),
            sections=sections,
            covered=max(message.covered, len(sections)),
            link=LetterLink(
                self.say("All of these alarms") if message.is_digest else self.say("Show it"),
                _url(message.link) or message.link[:MAX_LINK_CHARS],
            ),
            footer=self.say(
                "%(place)s · channel “%(channel)s” · times of %(zone)s",
                place=place,
                channel=clean(self._channel.name, NAME_CHARS),
                zone=self._zone.name,
            ),
        )

    def time(self, at: int) -> str:
        """Such as 2026-03-29 03:15:00 +02:00."""
        if not is_instant(at):
            return "?"
        offset = self._zone.segment_at(at // 1_000).offset
        local = _EPOCH + timedelta(seconds=at // 1_000 + offset)
        sign, minutes = "-" if offset < 0 else "+", abs(offset) // 60
        return f"{local:%Y-%m-%d %H:%M:%S} {sign}{minutes // 60:02}:{minutes % 60:02}"

    def _title(self, entry: AlarmEntry) -> str:
        if entry.occasion is Occasion.TEST:
            return self.say(
                "Test of the channel “%(channel)s”", channel=clean(self._channel.name, NAME_CHARS)
            )
        kind = self.say(KIND_TITLES[entry.kind])
        is_not_so = entry.occasion is Occasion.REPEATED and entry.closed_at is not None
        if entry.occasion is not Occasion.OPENED and not is_not_so:
            occasion = self.say(occasion_title(entry.occasion, entry.kind))
            kind = self.say("%(occasion)s: %(kind)s", occasion=occasion, kind=kind)
        about = entry.failure or entry.job_name
        names = [clean(name, NAME_CHARS) for name in (entry.executor_name, about) if name]
        if not names:
            return kind
        return self.say("%(kind)s: %(subject)s", kind=kind, subject=" / ".join(names))

    def _section(self, entry: AlarmEntry) -> LetterSection:
        return LetterSection(
            tone=_tone_of(entry),
            title=self._title(entry),
            sentence=self._said(entry.template, entry.params) or self._title(entry),
            own_lines=clean_lines(entry.own_text),
            facts=tuple(self._facts(entry)) if entry.occasion is not Occasion.TEST else (),
            error_line=clean(entry.error_line or ""),
            error_label=self.say("Last error"),
            links=tuple(self._links(entry)),
        )

    def _links(self, entry: AlarmEntry) -> Iterator[LetterLink]:
        is_over = entry.occasion is Occasion.RECOVERED or entry.closed_at is not None
        for name, label in (_LINKS_WHEN_OVER if is_over else _LINKS).items():
            if url := _url(entry.links.get(name, "")):
                said = self.say(label)
                if name == "run" and entry.run_id is not None:
                    said += f" #{entry.run_id}"
                yield LetterLink(said, url)

    def _facts(self, entry: AlarmEntry) -> list[LetterFact]:
        found = [LetterFact(self.say("Since"), self.time(entry.since))]
        if entry.count > 1:
            how_often = self.say(
                "%(count)s times, last at %(time)s",
                count=f"{entry.count:,}",
                time=self.time(entry.last_at),
            )
            found.append(LetterFact(self.say("How often"), how_often))
        found += self._silence(entry)
        if entry.closed_at is not None:
            found.append(LetterFact(self.say("Over since"), self.time(entry.closed_at)))
        if entry.before_template:
            before = self._said(entry.before_template, entry.before_params)
            found.append(LetterFact(self.say("Before"), before))
        if entry.next_fire_at is not None:
            found.append(LetterFact(self.say("Fires next"), self.time(entry.next_fire_at)))
        if entry.owner:
            found.append(LetterFact(self.say("Owner"), clean(entry.owner, NAME_CHARS)))
        if entry.rule_name:
            found.append(LetterFact(self.say("Rule"), clean(entry.rule_name, NAME_CHARS)))
        return found

    def _silence(self, entry: AlarmEntry) -> Iterator[LetterFact]:
        """What follows, and when, if nobody answers a step that waits."""
        due_at = entry.params.get("due_at")
        if entry.kind is not AlarmKind.APPROVAL_WAITS or not isinstance(due_at, int):
            return
        if entry.closed_at is None:
            is_approved = entry.params.get("silence") == Silence.APPROVE
            template = _APPROVED_AT if is_approved else _DECLINED_AT
            text = self.say(template, time=self.time(due_at))
            yield LetterFact(self.say("Without an answer"), text)

    def _said(self, template: str, params: Mapping[str, Any]) -> str:
        """A text whose params may come from outside."""
        known = {name: _shown(value) for name, value in params.items()}
        if isinstance(error := known.get("error"), str):
            known["error"] = translate(*template_of_message(error), self._channel.language)
        try:
            text = translate(template, known, self._channel.language)
        except (KeyError, TypeError, ValueError):  # params that do not fit; better than no alarm
            text = template
        return clean(text, LINE_CHARS * 2)


def _shown(value: Any) -> Any:
    if isinstance(value, Word | int | float):
        return value
    if isinstance(value, list | tuple):
        return clean(", ".join(str(each) for each in value))
    return clean(value)


def _installation(text: str) -> str:
    """What the installation is called, with the product's name in it."""
    host = urlsplit(text).hostname if text.startswith(("http://", "https://")) else None
    name = clean(host or text, NAME_CHARS)
    return name if PRODUCT in name else f"{PRODUCT} {name}".strip()


def _url(text: str) -> str:
    """An absolute URL that can be put into every format; "": it is none."""
    is_good = text.isascii() and text.isprintable() and not set(text) & set(' <>"\\^`{|}')
    if not is_good or len(text) > MAX_LINK_CHARS or not text.startswith(("http://", "https://")):
        return ""
    return text.replace("(", "%28").replace(")", "%29").replace("'", "%27")


def _tone_of(entry: AlarmEntry) -> Tone:
    if entry.occasion is Occasion.RECOVERED:
        return Tone.GOOD
    if entry.occasion is Occasion.TEST:
        return Tone.NEUTRAL
    return Tone.BAD if entry.severity is Severity.ERROR else Tone.WARNING


def _tone(tones: list[Tone]) -> Tone:
    """The worst one."""
    return next(each for each in Tone if each in tones)
