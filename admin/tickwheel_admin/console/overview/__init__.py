"""The overview and what needs attention."""
