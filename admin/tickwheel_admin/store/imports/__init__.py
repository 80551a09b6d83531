"""What was imported before, and the databases of other schedulers that are read."""
