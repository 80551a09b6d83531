"""A whole cluster in one process and in virtual time: real admins, real nodes, invented disasters.

Everything follows from a seed. `world` builds a cluster and lets it live, `checker` compares what
happened with what was promised, `__main__` searches seeds and prints the history of one that fails.
"""
