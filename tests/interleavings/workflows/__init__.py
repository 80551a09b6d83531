"""Workflows, whose steps end at once."""
