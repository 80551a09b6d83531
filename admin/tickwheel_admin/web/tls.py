"""The certificate that this admin shows: replaced while it runs, without breaking a connection."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import structlog

from tickwheel_admin.config_tls import TlsFiles, TlsProblems, server_context
from tickwheel_admin.domain.admin_status import TlsStatus

log = structlog.get_logger(__name__)

LOOK_SECONDS = 2.0

_Seen = tuple[tuple[int, int, int] | None, ...]  # of each file: inode, size, time of change


class ServerTls:
    """Hands each handshake to the newest usable files; connections keep what they began with."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files.

        Raises:
            TlsProblems: they cannot be used.
        """
        self._files = files
        self._seen = self._loaded = self._look()
        self._newest, self._expires_at = server_context(files)
        self._problem = ""
        # Of a context that listens, certificates can be changed, but not authorities taken away;
        # and a bad pair would leave it with half of each.
        self.context, _ = server_context(files)
        self.context.sni_callback = self._choose

    def status(self) -> TlsStatus:
        """Until when the certificate is valid, and what is wrong with newer files."""
        return TlsStatus(expires_at=self._expires_at, problem=self._problem)

    async def watch(self) -> None:
        """Look at the files every few seconds, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look_again()

    def look_again(self) -> None:
        """Take over files that have changed, once they have stayed the same for two looks."""
        before, self._seen = self._seen, self._look()
        if self._seen == self._loaded or self._seen != before:
            return  # certificate and key are two files: between the two they do not fit
        self._loaded = self._seen
        try:
            self._newest, self._expires_at = server_context(self._files)
        except TlsProblems as error:
            self._problem = str(error)
            log.error("tls.files_refused", problems=error.problems)
            return
        self._problem = ""
        log.info("tls.files_taken", expires_at=self._expires_at)

    def _choose(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _of: ssl.SSLContext
    ) -> None:
        # OpenSSL asks in every handshake, also in those that name no host.
        connection.context = self._newest

    def _look(self) -> _Seen:
        files = self._files
        return tuple(
            _mark(each) for each in (files.cert, files.key, files.client_ca) if each is not None
        )


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
