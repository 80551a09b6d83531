"""Where a pool process begins: finds the packages where its node found them, and runs its child."""

from __future__ import annotations

import json
import socket
import sys


def main() -> None:
    """Read the node's `sys.path` from the socket, then do what the node says."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)  # what a handler starts must not hold it open
    line = b""
    while not line.endswith(b"\n"):  # byte for byte: what follows is for the child
        byte = connection.recv(1)
        if not byte:
            return  # the node has ended
        line += byte
    sys.path[:] = json.loads(line)
    from tickwheel_executor.runner.process_child import ChildProcess

    ChildProcess(connection).serve()


if __name__ == "__main__":
    main()
