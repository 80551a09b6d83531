"""Channels of alarms: what they send, to whom, and what becomes of the answers."""
