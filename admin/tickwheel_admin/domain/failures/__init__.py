"""Runs that failed alike: what a group of them is, and how it counts."""
