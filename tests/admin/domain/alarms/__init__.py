"""Rules about alarms and their channels."""
