"""What crosses the wire between admin and node, and nothing else."""
