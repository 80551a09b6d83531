"""Graphs of steps."""
