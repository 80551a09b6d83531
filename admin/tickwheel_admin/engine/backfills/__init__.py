"""The loop that writes the runs of backfills."""
