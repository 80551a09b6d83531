"""Failure groups: rows that the evaluator of alarms counts and people treat."""
