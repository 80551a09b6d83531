"""Importing jobs and calendars of other schedulers."""
