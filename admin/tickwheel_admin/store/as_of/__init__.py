"""What was the case at a past instant."""
