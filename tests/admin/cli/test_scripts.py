"""`tickwheel script`: keys, and signatures that machines accept."""

from __future__ import annotations

import base64
import io
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_public_key,
)

from tickwheel_admin.cli.commands import run
from tickwheel_admin.domain.input.script import parse_script


def test_a_script_is_signed_with_a_new_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, script = tmp_path / "key.pem", tmp_path / "nightly.sh"
    assert run(["script", "keygen", str(key)]) == 0
    public = load_pem_public_key(capsys.readouterr().out.encode())
    assert isinstance(public, Ed25519PublicKey)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert run(["script", "keygen", str(key)]) == 1  # the one that is there stays
    capsys.readouterr()

    script.write_text("echo 你好\n")
    assert run(["script", "sign", "--key", str(key), str(script)]) == 0
    signature = capsys.readouterr().out.strip()
    given = {"language": "shell", "source": "echo 你好\n", "signature": signature}
    text = parse_script(given).text_to_sign  # the admin takes it
    public.verify(base64.b64decode(signature), text.encode())

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"print(1)")))
    assert run(["script", "sign", "--key", str(key), "--language", "python", "-"]) == 0
    other = capsys.readouterr().out.strip()
    text = parse_script({"language": "python", "source": "print(1)"}).text_to_sign
    public.verify(base64.b64decode(other), text.encode())


def test_what_cannot_be_signed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, other = tmp_path / "key.pem", tmp_path / "other.pem"
    assert run(["script", "keygen", str(key)]) == 0
    other.write_bytes(
        generate_private_key(SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
    )
    good = tmp_path / "good.sh"
    good.write_bytes(b"true")
    for name, content in {"a.sh": b"\xff", "b.sh": b"a\r\nb", "c": b"true", "d.sh": b" "}.items():
        (tmp_path / name).write_bytes(content)
    for used, script, told in (
        (key, "a.sh", "not text in UTF-8"),
        (key, "b.sh", "line ends of Windows"),
        (key, "c", "--language"),
        (key, "d.sh", "required"),
        (key, "missing.sh", "cannot be read"),
        (other, "good.sh", "ed25519"),
        (good, "good.sh", "not a private key"),
        (tmp_path / "none.pem", "good.sh", "cannot be read"),
    ):
        assert run(["script", "sign", "--key", str(used), str(tmp_path / script)]) == 1
        assert told in capsys.readouterr().err, script
