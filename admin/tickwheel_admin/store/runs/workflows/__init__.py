"""What becomes of workflows when runs of their steps end."""
