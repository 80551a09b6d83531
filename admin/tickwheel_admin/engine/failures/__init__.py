"""The loop that retries runs of failure groups."""
