"""Which nodes and admins are alive."""
