"""Workflows declared in code."""
