"""The processes between an agent and its commands: one keeper, and a supervisor for each run.

The code here runs in processes of its own (boot.py), which import nothing else of this package:
they have to be small, because they are forked for every run.

    agent ── keeper ──┬── supervisor of run 17 ── command and all that it starts
                      └── supervisor of run 18 ── …

The agent sends the keeper one byte with a socket for each supervisor that it needs, and keeps idle
ones for the next runs. Through that socket go the order (what to start, with the pipes for output
and errors), requests to stop it, and at the end the report. When the agent dies, in whatever way,
all these sockets close: each supervisor then kills everything below it and ends, and so does the
keeper.

A supervisor is the subreaper of its command: what the command daemonises becomes the supervisor's
child and can be found and killed. The keeper is a subreaper too, in case a supervisor is killed.
Only Linux has subreapers. Elsewhere the process group is killed, and daemons escape.
"""
