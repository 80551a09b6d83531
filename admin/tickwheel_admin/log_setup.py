"""Logging, configured once: events with fields, from structlog and from libraries alike.

Secrets are kept out in two ways: fields with a telling name are blanked, and in every text, traces
included, what looks like one of our tokens or a password in a URL is cut out.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tickwheel_admin.config import LogFormat, LogLevel
from tickwheel_admin.domain.text_lines import continued

REDACTED = "[redacted]"
_SECRET_NAMES = re.compile(r"password|passwd|secret|token|cookie|authorization|database_url", re.I)
_SECRET_TEXTS = re.compile(
    r"\btw[a-z]_[A-Za-z0-9_-]{16,}"  # API and executor tokens
    r"|\$argon2[a-z]*\$\S+"
    r"|(?<=://)[^\s:/@]+:[^\s/@]+(?=@)"  # user:password in a URL
    r"|(?<=tickwheel_session=)[^\s;,'\"]+"
    r"|(?i:(?<=bearer ))[^\s,'\"]+"
)


def configure_logging(
    log_format: LogFormat, level: LogLevel, *, stream: TextIO | None = None
) -> None:
    """Send every event of the given level and above to the stream, stderr unless told otherwise."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        redact_secrets,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *([] if log_format is LogFormat.JSON else [keep_entries_apart]),
                _renderer(log_format, handler.stream),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Statements carry people's data; whoever wants them asks the database for its log.
    logging.getLogger("sqlalchemy").setLevel(logging.WARNING)
    # A trace for every connection that an outage broke; `store.database` tells of the outage.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    # How it compares schemas; `store.database.migrate` says what matters of it.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Its lines hold whole addresses with their queries; `web.request_log` has what is needed.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


def redact_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A processor: blank what must not be read by whoever reads logs."""
    for name, value in event.items():
        if name.startswith("_"):
            continue
        if _SECRET_NAMES.search(name):
            event[name] = REDACTED
        elif isinstance(value, str):
            event[name] = _SECRET_TEXTS.sub(REDACTED, value)
        elif not isinstance(value, int | float | bool | None):
            event[name] = _SECRET_TEXTS.sub(REDACTED, repr(value))
    return event


def keep_entries_apart(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A processor: what libraries log, and traces, may hold line ends that somebody sent. Values of
    fields are quoted where they are written.
    """
    for name in ("event", "exception", "stack"):
        if isinstance(text := event.get(name), str):
            event[name] = continued(text)
    return event


def _renderer(log_format: LogFormat, stream: TextIO) -> Processor:
    if log_format is LogFormat.JSON:
        return structlog.processors.JSONRenderer(ensure_ascii=False)
    # Plain traces: rich ones show local variables, and with them passwords.
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
