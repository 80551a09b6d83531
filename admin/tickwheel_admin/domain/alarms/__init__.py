"""Alarms: what may be the matter, who is told, and by which channel."""
