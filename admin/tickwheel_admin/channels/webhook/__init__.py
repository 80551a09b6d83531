"""Messages as signed JSON, for programs."""
