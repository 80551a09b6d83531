"""Cron expressions in words."""
