"""The SQL of backfills."""
