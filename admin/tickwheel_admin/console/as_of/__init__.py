"""The console as it was at an instant."""
