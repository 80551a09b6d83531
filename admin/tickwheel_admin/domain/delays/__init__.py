"""Who delays whom: the start delay of runs in parts, each charged to the runs that caused it."""
