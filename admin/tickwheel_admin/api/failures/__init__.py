"""Failure groups: runs that failed alike."""
