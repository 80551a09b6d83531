"""Workflows that a program declares beside its handlers."""
