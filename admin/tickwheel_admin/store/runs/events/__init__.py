"""Events of runs: written by the transactions that make them true, numbered once committed."""
