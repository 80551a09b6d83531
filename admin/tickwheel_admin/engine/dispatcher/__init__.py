"""Claims due runs and hands them to nodes."""
