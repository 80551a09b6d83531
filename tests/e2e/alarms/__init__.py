"""Alarms as a provider gets them, from admins that die."""
