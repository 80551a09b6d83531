"""A run: its log, what hides its secrets."""
