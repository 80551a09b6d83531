"""Roll-ups, cleaning and refreshing."""
