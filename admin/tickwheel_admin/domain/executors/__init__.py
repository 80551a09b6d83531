"""Executors, their nodes and tokens."""
