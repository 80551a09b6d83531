"""Alarms, their rules, channels and messages."""
