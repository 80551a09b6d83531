"""Crontabs: what their lines say to Debian's cron, and to cronie where it differs."""
