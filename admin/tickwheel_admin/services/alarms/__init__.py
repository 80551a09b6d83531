"""Use cases of alarms: the open ones, the rules that make them, and how people are told."""
