"""`python -m tickwheel_admin.healthz`: the health check of a container, without a library.

It asks the admin on this machine, and ends with 0 while that one works. The port, and whether it
speaks TLS, are read from the environment as the admin does.
"""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request

TIMEOUT_SECONDS = 2.0


def main() -> int:
    """The exit code."""
    port = os.environ.get("TICKWHEEL_PORT", "")
    number = int(port) if port.isdigit() else 8500  # not Kubernetes' tcp://…
    scheme = "https" if os.environ.get("TICKWHEEL_TLS_CERT") else "http"
    context = None
    if scheme == "https":
        # Asked is whether it works; its certificate is for its name, and not for this address.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = f"{scheme}://127.0.0.1:{number}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS, context=context):  # noqa: S310 - of this machine
            return 0
    except OSError as error:  # an answer of 503 among them
        print(error, file=sys.stderr)  # noqa: T201 - the log of health checks
        return 1


if __name__ == "__main__":
    sys.exit(main())
