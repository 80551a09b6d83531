"""A database as a large installation would have it after a quarter of a year."""
