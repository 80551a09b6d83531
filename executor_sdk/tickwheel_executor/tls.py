"""How a node or client tells that an admin is the right one, and shows who it is itself."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import ConnectError


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Files in PEM. They are read at each connect, so that renewed ones are used."""

    ca_file: str | None = None  # only its authorities are trusted; None: those of the system
    client_cert: str | None = None  # shown to admins that ask for one
    client_key: str | None = None  # of it; None: it is in the same file

    def context(self) -> ssl.SSLContext | bool:
        """For aiohttp; True: its own, which trusts what the system trusts.

        Raises:
            ConnectError: a file cannot be used.
        """
        if self == TlsSettings():
            return True
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # of which ssl.SSLError is one
            raise ConnectError(f"ca_file {self.ca_file}: {_why(error, 'certificate')}") from None
        if self.client_cert is not None:
            try:
                # A key with a passphrase is an error: nobody is there to type it.
                context.load_cert_chain(self.client_cert, self.client_key, password=lambda: "")
            except OSError as error:
                files = " and ".join(file for file in (self.client_cert, self.client_key) if file)
                raise ConnectError(
                    f"client_cert {files}: {_why(error, 'certificate and key that fit')}"
                ) from None
        return context


def read_tls(
    given: Mapping[str, str | os.PathLike[str] | None],
    environ: Mapping[str, str],
    problems: list[str],
) -> TlsSettings:
    """From arguments, and TICKWHEEL_CA_FILE, …_CLIENT_CERT and …_CLIENT_KEY for missing ones."""
    files = {
        name: os.fspath(value) if value else environ.get(f"TICKWHEEL_{name.upper()}") or None
        for name, value in given.items()
    }
    settings = TlsSettings(**files)
    if settings.client_key is not None and settings.client_cert is None:
        problems.append("client_key is given, but no client_cert; give the certificate as well")
        return settings
    try:
        settings.context()
    except ConnectError as error:
        problems.append(str(error))
    return settings


def _why(error: OSError, wanted: str) -> str:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).lower().replace("_", " ")
        return f"holds no {wanted} in PEM ({reason})"
    return f"cannot be read: {error.strerror}"
