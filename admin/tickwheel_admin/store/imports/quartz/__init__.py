"""Reads the tables in which Quartz 2 keeps jobs and triggers."""
