"""What workflows mean."""
