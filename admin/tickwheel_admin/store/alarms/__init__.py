"""Signals, rules, alarms and the outbox of their messages."""
