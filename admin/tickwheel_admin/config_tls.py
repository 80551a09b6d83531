"""Settings of TLS: the files that they name, what is in them, and what does not go together."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_DECRYPT = "openssl pkey -in KEY -out KEY.plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Files in PEM."""

    cert: Path  # the admin's own certificate first, then those between it and its authority
    key: Path  # of the first certificate, without a passphrase
    client_ca: Path | None  # authorities of nodes; None: nodes need no certificate


class TlsProblems(Exception):
    """Files that cannot be used; every problem begins with the name of its setting."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def files_of(cert: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    """None: the admin speaks plain HTTP."""
    if cert is None or key is None:
        return None
    return TlsFiles(cert=cert, key=key, client_ca=client_ca)


def conflicts(given: Mapping[str, Path | None], *, public_url: str) -> list[str]:
    """Problems of settings that can be read, but not together, and of the files that they name."""
    files = files_of(given["tls_cert"], given["tls_key"], given["tls_client_ca"])
    if files is None:
        return _incomplete(given)
    problems = []
    if public_url.startswith("http://"):
        problems.append(
            f"public_url: is {public_url}, but with tls_cert this admin speaks only TLS;"
            " begin it with https://"
        )
    try:
        server_context(files)
    except TlsProblems as error:
        problems += error.problems
    return problems


def _incomplete(given: Mapping[str, Path | None]) -> list[str]:
    there = [name for name, path in given.items() if path is not None]
    if not there:
        return []
    missing = [name for name in ("tls_cert", "tls_key") if given[name] is None]
    return [
        f"{there[0]}: needs {' and '.join(missing)} as well: the certificate and its key, in PEM"
    ]


def server_context(files: TlsFiles) -> tuple[ssl.SSLContext, int]:
    """What to listen with, and until when its certificate is valid (UTC epoch ms).

    A certificate that has expired is no problem here: an admin that does not start helps nobody.

    Raises:
        TlsProblems: with every problem of the files.
    """
    problems: list[str] = []
    chain = _certificates(files.cert, "tls_cert", problems)
    key = _public_bytes_of_key(files.key, problems)
    if files.client_ca is not None:
        _check_authorities(files.client_ca, problems)
    if chain and key is not None and key != _public_bytes(chain[0]):
        problems.append(
            f"tls_key: {files.key} is not the key of the first certificate in {files.cert};"
            " the admin's own comes first, its authorities after it"
        )
    if problems:
        raise TlsProblems(problems)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.cert, files.key)
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
            # Browsers come to the same port: whoever needs a certificate is asked for it there.
            context.verify_mode = ssl.CERT_OPTIONAL
    except (ssl.SSLError, OSError) as error:  # too weak for OpenSSL, or replaced just now
        raise TlsProblems([f"tls_cert: cannot be used: {error.strerror or error}"]) from None
    return context, int(chain[0].not_valid_after_utc.timestamp() * 1000)


def _read(path: Path, setting: str, problems: list[str]) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError as error:
        problems.append(f"{setting}: {path} cannot be read: {error.strerror}")
        return None


def _certificates(path: Path, setting: str, problems: list[str]) -> list[Certificate]:
    from cryptography import x509  # only who uses TLS waits for it

    content = _read(path, setting, problems)
    if content is None:
        return []
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        problems.append(f"{setting}: {path} holds no certificate in PEM")
        return []


def _check_authorities(path: Path, problems: list[str]) -> None:
    from cryptography import x509

    for each in _certificates(path, "tls_client_ca", problems):
        try:
            is_authority = each.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except x509.ExtensionNotFound:
            is_authority = False
        if not is_authority:
            name = each.subject.rfc4514_string()
            problems.append(
                f"tls_client_ca: {path} holds {name}, which is no authority;"
                " give the certificate of the authority that signs those of nodes"
            )


def _public_bytes_of_key(path: Path, problems: list[str]) -> bytes | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _read(path, "tls_key", problems)
    if content is None:
        return None
    try:
        return _public_bytes(load_pem_private_key(content, None))
    except TypeError:
        problems.append(f"tls_key: {path} has a passphrase; store it without one: {_DECRYPT}")
    except (ValueError, UnsupportedAlgorithm):
        problems.append(f"tls_key: {path} holds no private key in PEM")
    return None


def _public_bytes(holder: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = holder.public_key()
    return bytes(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
