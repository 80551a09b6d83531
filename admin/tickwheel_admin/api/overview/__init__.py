"""What somebody should look at."""
