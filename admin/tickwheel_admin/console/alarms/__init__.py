"""Pages of alarms: open ones and their history, rules, channels and messages."""
