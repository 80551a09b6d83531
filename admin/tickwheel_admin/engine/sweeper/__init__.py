"""Deadlines, lost and stalled runs."""
