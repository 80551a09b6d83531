"""The database itself: schema, connections, batches, clock."""
