"""What was, and what became of it."""
