"""Side tables of workflow runs: their steps, and the items of steps."""
