"""Use cases for console and API alike; permission and audit happen here, once."""
