"""What needs attention."""
