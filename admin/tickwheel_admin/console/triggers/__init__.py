"""Triggers and when they fire."""
