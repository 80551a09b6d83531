"""Tells people what went wrong: finds alarms, and delivers what is to be told of them."""
