"""Entry point of a pool process: takes over the node's `sys.path`, then runs ChildProcess."""

from __future__ import annotations

import json
import socket
import sys


def main() -> None:
    """Read the node's `sys.path` from the socket, then serve the node."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)  # processes of a handler must not keep it open
    line = b""
    while not line.endswith(b"\n"):  # byte by byte: the rest is for ChildProcess
        byte = connection.recv(1)
        if not byte:
            return  # the node has ended
        line += byte
    sys.path[:] = json.loads(line)
    from tickwheel_executor.runner.process_child import ChildProcess

    ChildProcess(connection).serve()


if __name__ == "__main__":
    main()
