"""A node: assembly, lifecycle, shutdown, and embedding in other programs."""
