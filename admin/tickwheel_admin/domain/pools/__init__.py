"""Rules of pools: limits across jobs."""
