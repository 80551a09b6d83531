"""`tickwheel script`: signatures for machines that run signed scripts only."""

from __future__ import annotations

import argparse
import base64
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from tickwheel_admin.cli.common import Failure
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.script import parse_script
from tickwheel_admin.domain.runs.script import Script

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
examples:
  tickwheel script keygen signing-key.pem          writes the key, prints its public half
  tickwheel script sign --key signing-key.pem nightly.sh
  tickwheel script sign --key signing-key.pem --language python -   from the standard input

The public half belongs into the configuration of each agent, the signature into the field
`signature` of the job's script: in the console, the API or a YAML file. It covers the language and
the very bytes of the script. Keep the key away from the admins: who has both can run anything.
"""
# By the end of a file's name.
_LANGUAGES = {
    ".sh": "shell",
    ".bash": "shell",
    ".py": "python",
    ".js": "node",
    ".mjs": "node",
    ".php": "php",
    ".ps1": "powershell",
    ".pl": "perl",
    ".rb": "ruby",
    ".groovy": "groovy",
}


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "script",
        help="make a key for scripts, and sign them",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    keygen = commands.add_parser("keygen", help="write a new private key, print its public half")
    keygen.add_argument("file", type=Path, help="where; it must not exist yet")
    keygen.set_defaults(run=_keygen)
    sign = commands.add_parser("sign", help="print the signature of a script")
    sign.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="ed25519 private key in PEM"
    )
    sign.add_argument("--language", help="as in the job (default: by the end of the file's name)")
    sign.add_argument("script", help="the file, or - for the standard input")
    sign.set_defaults(run=_sign)


def _keygen(args: argparse.Namespace) -> int:
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        # Never readable by others, not even for a moment; a key that exists is never lost.
        handle = os.open(args.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Failure(f"{args.file} exists already; choose another name") from None
    except OSError as error:
        raise Failure(f"{args.file} cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "wb") as file:
        file.write(text)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    print(public.decode(), end="")
    return 0


def _sign(args: argparse.Namespace) -> int:
    script = _read_script(args.script, args.language)
    signature = _read_key(args.key).sign(script.text_to_sign.encode())
    print(base64.b64encode(signature).decode())
    return 0


def _read_key(path: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise Failure(f"the key {path} cannot be read: {error.strerror}") from None
    except (TypeError, ValueError) as error:  # with a passphrase; not PEM
        raise Failure(
            f"{path} is not a private key in PEM without a passphrase ({error}); make one with"
            " `tickwheel script keygen`"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Failure(f"{path} is a key of another kind; scripts are signed with ed25519")
    return key


def _read_script(name: str, language: str | None) -> Script:
    language = language or _LANGUAGES.get(Path(name).suffix)
    if language is None:
        raise Failure("the end of the name does not tell the language; give it with --language")
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        source = raw.decode()
    except OSError as error:
        raise Failure(f"the script {name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"the script {name} is not text in UTF-8") from None
    try:
        return parse_script({"language": language, "source": source})
    except InvalidInput as error:
        raise Failure(f"the script cannot be a job's: {error}") from None
