"""The command line as users have it."""
