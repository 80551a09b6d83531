"""What an admin does beside its runs."""
