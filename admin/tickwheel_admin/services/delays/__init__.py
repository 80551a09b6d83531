"""Who delays whom: the start delay of a run in parts, and a matrix of jobs."""
