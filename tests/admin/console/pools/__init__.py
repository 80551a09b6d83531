"""Pages of pools."""
