"""What a handler sees of its run."""
