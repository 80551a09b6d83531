"""Capturing and shipping log lines."""
